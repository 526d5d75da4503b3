package stet

import "crypto/subtle"

// Fingerprint says what a request asked for, and by which recipe that was computed.
type Fingerprint struct {
	Recipe string
	Sum    [32]byte
	Parts  [5]uint32
}

// Equal reports whether two fingerprints of one recipe agree.
func (f Fingerprint) Equal(g Fingerprint) bool {
	return f.Recipe == g.Recipe && subtle.ConstantTimeCompare(f.Sum[:], g.Sum[:]) == 1
}
