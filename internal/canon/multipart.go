package canon

import (
	"bytes"
	"maps"
	"mime"
	"slices"
	"strings"
)

// Limits of a multipart body. Beyond them Parse refuses.
const (
	maxParts       = 1024
	maxPartHeaders = 32 // of one part
	maxBoundary    = 70 // RFC 2046 section 5.1.1
	maxNested      = 8  // multipart bodies within each other; what is deeper is content
)

const contentType = "Content-Type"

// Multipart is a multipart body (RFC 2046, RFC 7578) by its parts, whatever boundary stands between
// them. The order of the parts is kept: it may matter (RFC 7578 section 5.2).
type Multipart struct {
	parts         []part
	headers       []header
	before, after []byte // the first boundary and the last: what readers leave out, mostly
}

type part struct {
	headers int // how many of Multipart.headers are this part's
	content []byte
}

type header struct{ name, value []byte }

// Parse reads src, which must not change while m is used. It reports false unless the body is
// written in the plain way: boundaries on lines of their own ended by CRLF, header lines that are
// not folded, and the boundary nowhere else. What reads another way to another reader is not for us
// to interpret.
func (m *Multipart) Parse(src []byte, boundary string) bool {
	m.parts, m.headers, m.before, m.after = m.parts[:0], m.headers[:0], nil, nil
	if boundary == "" || len(boundary) > maxBoundary {
		return false
	}
	mark := append([]byte("--"), boundary...)
	rest, ok := bytes.CutPrefix(src, mark)
	if !ok {
		m.before, rest, ok = bytes.Cut(src, append([]byte("\r\n"), mark...))
	}
	for ok {
		if end, last := bytes.CutPrefix(rest, []byte("--")); last && len(m.parts) > 0 {
			end, ok = bytes.CutPrefix(end, []byte("\r\n"))
			m.after = end
			return (ok || len(end) == 0) && !bytes.Contains(end, mark)
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

// Bare reports whether nothing stands before the first boundary, not even an empty line, and after
// the last.
func (m *Multipart) Bare() bool { return m.before == nil && len(m.after) == 0 }

// Drop leaves out the parts of a form that have one of these names (RFC 7578 section 4.2).
func (m *Multipart) Drop(names []string) {
	parts, headers, all := m.parts[:0], m.headers[:0], m.headers
	for _, p := range m.parts {
		own := all[:p.headers]
		if all = all[p.headers:]; !slices.Contains(names, formName(own)) {
			parts, headers = append(parts, p), append(headers, own...)
		}
	}
	m.parts, m.headers = parts, headers
}

func formName(headers []header) string {
	_, params, _ := mime.ParseMediaType(only(headers, "content-disposition"))
	return params["name"]
}

// only returns the value of the one header of that name; "" if there is none, or several.
func only(headers []header, name string) (value string) {
	found := 0
	for _, h := range headers {
		if strings.EqualFold(string(h.name), name) {
			value = string(h.value)
			found++
		}
	}
	if found != 1 {
		return ""
	}
	return value
}

// WriteNested is Write for a body of that media type, whatever boundaries stand in it and in the
// multipart bodies that are its parts. The other parameters of their types count, and so does what
// stands around their parts.
func (m *Multipart) WriteNested(w *Writer, media string) { m.writeNested(w, media, 1) }

func (m *Multipart) writeNested(w *Writer, media string, depth int) {
	writeParameters(w, media)
	w.Bytes(m.before)
	w.Bytes(m.after)
	w.Uint(len(m.parts))
	headers := m.headers
	for _, p := range m.parts {
		own := headers[:p.headers]
		headers = headers[p.headers:]
		var inner Multipart
		within := only(own, contentType)
		essence, _ := Essence(within)
		if !strings.HasPrefix(essence, "multipart/") || depth == maxNested || !inner.Parse(p.content, Boundary(within)) {
			w.Byte(0)
			writeFields(w, own)
			w.Bytes(p.content)
			continue
		}
		w.Byte(1)
		writeFields(w, slices.DeleteFunc(slices.Clone(own), func(h header) bool { return strings.EqualFold(string(h.name), contentType) }))
		w.String(essence)
		inner.writeNested(w, within, depth+1)
	}
}

// writeParameters writes those of a media type but for the boundary.
func writeParameters(w *Writer, media string) {
	_, params, _ := mime.ParseMediaType(media)
	delete(params, "boundary")
	w.Uint(len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		w.String(name)
		w.String(params[name])
	}
}

// Write writes every part: its header fields, ordered by name, and its content. All fields count,
// as they are: name and file name are in Content-Disposition, and any other may change what the
// content means.
func (m *Multipart) Write(w *Writer) {
	w.Uint(len(m.parts))
	headers := m.headers
	for _, p := range m.parts {
		writeFields(w, headers[:p.headers])
		headers = headers[p.headers:]
		w.Bytes(p.content)
	}
}

func writeFields(w *Writer, headers []header) {
	w.Uint(len(headers))
	for _, h := range headers {
		w.Uint(len(h.name))
		for _, c := range h.name {
			w.Byte(lower(c))
		}
		w.Bytes(h.value)
	}
}

// Release forgets the body.
func (m *Multipart) Release() {
	clear(m.parts[:cap(m.parts)])
	clear(m.headers[:cap(m.headers)])
	m.before, m.after = nil, nil
}

func compareFold(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if d := int(lower(a[i])) - int(lower(b[i])); d != 0 {
			return d
		}
	}
	return len(a) - len(b)
}
