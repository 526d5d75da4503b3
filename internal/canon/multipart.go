package canon

import (
	"bytes"
	"slices"
)

// Limits of a multipart body. Beyond them Parse refuses.
const (
	maxParts       = 1024
	maxPartHeaders = 32 // of one part
	maxBoundary    = 70 // RFC 2046 section 5.1.1
)

// Multipart is a multipart body (RFC 2046, RFC 7578) by its parts, whatever boundary stands between
// them. The order of the parts is kept: it may matter (RFC 7578 section 5.2).
type Multipart struct {
	parts   []part
	headers []header
}

type part struct {
	headers int // how many of Multipart.headers are this part's
	content []byte
}

type header struct{ name, value []byte }

// Parse reads src, which must not change while m is used. It reports false unless the body is
// written in the plain way: boundaries on lines of their own ended by CRLF, nothing before the
// first and nothing but CRLF after the last, header lines that are not folded, and the boundary
// nowhere else. What reads another way to another reader is not for us to interpret.
func (m *Multipart) Parse(src []byte, boundary string) bool {
	m.parts, m.headers = m.parts[:0], m.headers[:0]
	if boundary == "" || len(boundary) > maxBoundary {
		return false
	}
	mark := append([]byte("--"), boundary...)
	rest, ok := bytes.CutPrefix(src, mark)
	for ok {
		if len(m.parts) > 0 && (string(rest) == "--" || string(rest) == "--\r\n") {
			return true
		}
		if rest, ok = bytes.CutPrefix(rest, []byte("\r\n")); !ok || len(m.parts) == maxParts {
			return false
		}
		var p part
		if p.headers, rest, ok = m.header(rest); !ok {
			return false
		}
		if p.content, rest, ok = bytes.Cut(rest, mark); !ok {
			return false
		}
		if p.content, ok = bytes.CutSuffix(p.content, []byte("\r\n")); ok {
			m.parts = append(m.parts, p)
		}
	}
	return false
}

// header reads header lines up to the empty one and returns how many there were, and the rest.
func (m *Multipart) header(src []byte) (n int, rest []byte, ok bool) {
	for {
		line, after, found := bytes.Cut(src, []byte("\r\n"))
		if !found {
			return 0, nil, false
		}
		if src = after; len(line) == 0 {
			break
		}
		name, value, colon := bytes.Cut(line, []byte(":"))
		if !colon || n == maxPartHeaders || !IsToken(name) || bytes.ContainsAny(value, "\r\n") {
			return 0, nil, false
		}
		m.headers = append(m.headers, header{name, bytes.Trim(value, " \t")})
		n++
	}
	slices.SortStableFunc(m.headers[len(m.headers)-n:], func(a, b header) int { return compareFold(a.name, b.name) })
	return n, src, true
}

// Write writes every part: its header fields, ordered by name, and its content. All fields count,
// as they are: name and file name are in Content-Disposition, and any other may change what the
// content means.
func (m *Multipart) Write(w *Writer) {
	w.Uint(len(m.parts))
	headers := m.headers
	for _, p := range m.parts {
		w.Uint(p.headers)
		for _, h := range headers[:p.headers] {
			w.Uint(len(h.name))
			for _, c := range h.name {
				w.Byte(lower(c))
			}
			w.Bytes(h.value)
		}
		headers = headers[p.headers:]
		w.Bytes(p.content)
	}
}

// Release forgets the body.
func (m *Multipart) Release() {
	clear(m.parts[:cap(m.parts)])
	clear(m.headers[:cap(m.headers)])
}

func compareFold(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if d := int(lower(a[i])) - int(lower(b[i])); d != 0 {
			return d
		}
	}
	return len(a) - len(b)
}
