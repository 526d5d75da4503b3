package operate

// MaxReadings is how many readings are kept.
const MaxReadings = maxReadings

// Readings is how many are kept.
func (s *Service) Readings() int {
	s.readings.mu.Lock()
	defer s.readings.mu.Unlock()
	return len(s.readings.kept)
}
