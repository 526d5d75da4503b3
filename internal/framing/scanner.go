package framing

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/hexdigit"
)

// A field that must not be obeyed is overwritten with one of these. Each is as long as the field's
// name; the field's colon becomes its own or a part of the value.
const (
	overLength = door.BadFrame
	overCoding = door.BadFrame + ":  " // "Transfer-Encoding: chunked" becomes "Stet-Bad-Frame:  : chunked"
)

const (
	contentLength    = "content-length"
	transferEncoding = "transfer-encoding"
	preface          = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113 section 3.4
	requestOfPreface = len("PRI * HTTP/2.0\r\n")
)

type state uint8

const (
	inPreface   state = iota // at the beginning of a connection: is it HTTP/2?
	betweenHead              // before a request; net/http skips empty lines here
	inRequest                // the request line
	inHead                   // the field lines
	inBody
	inChunkSize
	inChunkPad // white space after the size
	inChunkExtension
	inChunkLine // at the LF after the size
	inChunk
	afterChunk // at the CR after a chunk's data
	inChunkEnd // at the LF
	inTrailer
	inFrame // HTTP/2: the nine bytes before each frame's payload
	inPayload
	lost // net/http refuses what came and closes the connection; the rest is ignored
)

// scanner follows the framing of what arrives on a connection exactly as net/http does, and marks
// requests whose end is not certain. It is at least as strict as net/http: what it cannot follow,
// net/http refuses.
type scanner struct {
	state state
	seen  int // bytes of the preface, of a size in hexadecimal digits, or of a frame's header
	left  uint64

	old  bool    // the request is of HTTP/1.0 or before
	tail [9]byte // the end of a request line that came in pieces, for its version
	have int     // bytes of tail

	// These are positions in the window of follow: where the scan continues, where the current line
	// begins, and where the first field begins that concerns the framing, or -1 if there is none
	// yet.
	at, line, from int
	fields         int // how many fields there are from there on that have to do with the framing

	frame [9]byte
	block bool // of HTTP/2: a header block has begun whose end is not announced yet
}

// follow continues in b, which begins with the bytes that the previous call held back, and returns
// how many bytes may be passed on. The rest is part of a head and belongs at the beginning of the
// next b. It overwrites names of fields in b.
func (s *scanner) follow(b []byte) (pass int) {
	i := s.at
	for i < len(b) {
		switch s.state {
		case inPreface:
			i = s.greeting(b, i)
		case betweenHead:
			if b[i] == '\r' || b[i] == '\n' {
				i++
				break
			}
			s.state, s.have = inRequest, 0
		case inRequest:
			i = s.requestLine(b, i)
		case inHead, inTrailer:
			j := bytes.IndexByte(b[i:], '\n')
			if j < 0 {
				return s.hold(len(b))
			}
			i += j + 1
			s.fieldLine(b, i)
		case inBody, inChunk, inPayload:
			i = s.skip(b, i)
		case inFrame:
			i += s.frameHeader(b[i:])
		case lost:
			i = len(b)
		default:
			s.chunkByte(b[i])
			i++
			s.line = i // of a trailer section, where it begins here
		}
	}
	if s.state == inHead || s.state == inTrailer {
		return s.hold(len(b))
	}
	s.at = 0
	return len(b)
}

// hold passes on what is before the incomplete line, or before the first field that concerns the
// framing.
func (s *scanner) hold(scanned int) (pass int) {
	pass = s.line
	if s.from >= 0 {
		pass = s.from
		s.from = 0
	}
	s.line -= pass
	s.at = scanned - pass
	return pass
}

// greeting compares with the preface of HTTP/2. A connection that begins otherwise is HTTP/1 from
// its first byte on.
func (s *scanner) greeting(b []byte, i int) int {
	if b[i] == preface[s.seen] {
		if s.seen++; s.seen == len(preface) {
			s.state, s.seen = inFrame, 0
		}
		return i + 1
	}
	switch n := s.seen; {
	case n > requestOfPreface: // net/http closes after such a request
		s.state = lost
	case n == requestOfPreface:
		s.startHead(false, i)
	case n > 0:
		s.state = inRequest
		s.keepTail([]byte(preface[:n]))
	default:
		s.state = betweenHead
	}
	return i
}

func (s *scanner) requestLine(b []byte, i int) int {
	j := bytes.IndexByte(b[i:], '\n')
	if j < 0 {
		s.keepTail(b[i:])
		return len(b)
	}
	line := b[i : i+j]
	if s.have > 0 || len(line) < len(s.tail) {
		s.keepTail(line)
		line = s.tail[:s.have]
	}
	s.startHead(isOld(line), i+j+1)
	return i + j + 1
}

func (s *scanner) startHead(old bool, at int) {
	s.state, s.old, s.line, s.from = inHead, old, at, -1
}

// keepTail keeps the last bytes of a line.
func (s *scanner) keepTail(b []byte) {
	if len(b) >= len(s.tail) {
		s.have = copy(s.tail[:], b[len(b)-len(s.tail):])
		return
	}
	keep := min(s.have, len(s.tail)-len(b))
	copy(s.tail[:], s.tail[s.have-keep:s.have])
	s.have = keep + copy(s.tail[keep:], b)
}

// isOld reports whether a request line ends with a version before 1.1. net/http refuses a line
// without a version.
func isOld(line []byte) bool {
	line = bytes.TrimSuffix(line, []byte("\r"))
	const form = len("HTTP/1.1")
	if len(line) < form {
		return false
	}
	major, minor := line[len(line)-3], line[len(line)-1]
	return major == '0' || major == '1' && minor == '0'
}

// fieldLine looks at the line, of a head or of a trailer section, that ends before end.
func (s *scanner) fieldLine(b []byte, end int) {
	line := b[s.line:end]
	switch {
	case line[0] == '\n' || line[0] == '\r' && len(line) == len("\r\n"):
		if s.state == inHead && s.from >= 0 {
			s.headOf(b[s.from:end])
		} else {
			s.state = betweenHead
		}
		s.from = -1
		return // nothing is held
	case s.state == inHead && (isField(line, contentLength) || isField(line, transferEncoding)):
		if s.fields++; s.from < 0 {
			s.from, s.fields = s.line, 1
		}
	}
	s.line = end
}

// isField reports whether b begins with a field of that name, which is in lower case.
func isField(b []byte, name string) bool {
	return len(b) > len(name) && b[len(name)] == ':' && strings.EqualFold(string(b[:len(name)]), name)
}

// headOf reads the end of a head, from the first field on that says where the body ends, as
// net/http does.
func (s *scanner) headOf(b []byte) {
	var length []byte
	lengths, codings, agree, chunked := 0, 0, true, false
	for rest := b; lengths+codings < s.fields; {
		switch {
		case isField(rest, contentLength):
			var v []byte
			v, rest = value(rest)
			v = bytes.Trim(v, " \t\r\n")
			agree = agree && (lengths == 0 || bytes.Equal(v, length))
			length, lengths = v, lengths+1
		case isField(rest, transferEncoding):
			var v []byte
			v, rest = value(rest)
			chunked, codings = len(v) == len("chunked") && strings.EqualFold(string(v), "chunked"), codings+1
		default:
			_, rest, _ = bytes.Cut(rest, []byte("\n"))
		}
	}
	n, ok := number(length)
	switch {
	case !agree || !ok, codings > 1 && !s.old, codings == 1 && !s.old && !chunked:
		s.state = lost
	case codings > 0 && !s.old:
		if len(length) > 0 { // an empty one is refused or, with GODEBUG=httplaxcontentlength=1, ignored
			overwrite(b, contentLength, overLength)
		}
		s.state, s.left, s.seen = inChunkSize, 0, 0
	default:
		if codings > 0 {
			overwrite(b, transferEncoding, overCoding)
		}
		if s.state, s.left = inBody, n; n == 0 {
			s.state = betweenHead
		}
	}
}

// value returns the value of the field that b begins with, with folded lines joined (RFC 9112
// section 5.2), and what follows it.
func value(b []byte) (v, rest []byte) {
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	v = trimLine(line)
	for own := false; len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t'); own = true {
		if !own {
			v = bytes.Clone(v)
		}
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		v = append(append(v, ' '), trimLine(line)...)
	}
	_, v, _ = bytes.Cut(v, []byte(":"))
	return bytes.TrimLeft(v, " \t"), rest
}

func trimLine(line []byte) []byte { return bytes.Trim(bytes.TrimSuffix(line, []byte("\r")), " \t") }

// number reads a Content-Length. A missing one and an empty one are 0.
func number(b []byte) (n uint64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	n, err := strconv.ParseUint(string(b), 10, 63)
	return n, err == nil
}

func overwrite(b []byte, name, with string) {
	for rest := b; len(rest) > 0; _, rest, _ = bytes.Cut(rest, []byte("\n")) {
		if isField(rest, name) {
			copy(rest, with)
		}
	}
}

// skip skips bytes of a body, a chunk or a frame.
func (s *scanner) skip(b []byte, i int) int {
	n := min(s.left, uint64(len(b)-i))
	if s.left -= n; s.left == 0 {
		switch s.state {
		case inChunk:
			s.state = afterChunk
		case inPayload:
			s.state = inFrame
		default:
			s.state = betweenHead
		}
	}
	return i + int(n)
}

// chunkByte follows what surrounds the chunks (RFC 9112 section 7.1). Like net/http it requires CR
// LF at the end of each line.
func (s *scanner) chunkByte(c byte) {
	const digits = 16 // of a size of 64 bits
	switch s.state {
	case inChunkSize:
		d := hexdigit.Value(c)
		switch {
		case d >= 0 && s.seen < digits:
			s.left, s.seen = s.left<<4|uint64(d), s.seen+1
		case s.seen == 0:
			s.state = lost
		default:
			s.afterSize(c)
		}
	case inChunkPad:
		s.afterSize(c)
	case inChunkExtension:
		switch c {
		case '\r':
			s.state = inChunkLine
		case '\n':
			s.state = lost
		}
	case inChunkLine:
		switch {
		case c != '\n':
			s.state = lost
		case s.left == 0:
			s.state, s.from = inTrailer, -1
		default:
			s.state = inChunk
		}
	case afterChunk:
		if s.state = inChunkEnd; c != '\r' {
			s.state = lost
		}
	case inChunkEnd:
		if s.state, s.left, s.seen = inChunkSize, 0, 0; c != '\n' {
			s.state = lost
		}
	default:
		panic("framing: no such state")
	}
}

func (s *scanner) afterSize(c byte) {
	switch {
	case c == '\r':
		s.state = inChunkLine
	case c == ';' && s.state == inChunkSize:
		s.state = inChunkExtension
	case c == ' ' || c == '\t':
		s.state = inChunkPad
	default:
		s.state = lost
	}
}
