package framing

// These are types and flags of frames (RFC 9113 section 6).
const (
	data         = 0x0
	headers      = 0x1
	continuation = 0x9
	endHeaders   = 0x4
)

// frameHeader reads bytes of the header that precedes each frame's payload (RFC 9113 section 4.1),
// and returns how many.
func (s *scanner) frameHeader(b []byte) int {
	n := copy(s.frame[s.seen:], b)
	if s.seen += n; s.seen < len(s.frame) {
		return n
	}
	s.seen = 0
	s.left = uint64(s.frame[0])<<16 | uint64(s.frame[1])<<8 | uint64(s.frame[2])
	if s.left > 0 {
		s.state = inPayload
	}
	if t := s.frame[3]; t == headers || t == continuation {
		s.block = s.frame[4]&endHeaders == 0
	}
	return n
}

// unfinished reports whether an HTTP/2 client has begun something that its connection cannot
// continue without: a header block or a frame. A DATA frame may take its time, because bodies have
// other limits.
func (s *scanner) unfinished() bool {
	switch s.state {
	case inFrame:
		return s.block || s.seen > 0
	case inPayload:
		return s.block || s.frame[3] != data
	}
	return false
}
