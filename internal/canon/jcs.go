package canon

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// Doubles reports whether every number of the document is a finite double once it is rounded, as
// RFC 8785 demands.
func (d *Doc) Doubles() bool {
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.kind != number {
			continue
		}
		lit := d.src[n.off:n.end]
		if len(lit) < 300 && (n.flags&integer != 0 || !bytes.ContainsAny(lit, "eE")) {
			continue // without an exponent, so few digits stay below 1.8e308
		}
		if _, err := strconv.ParseFloat(string(lit), 64); err != nil {
			return false
		}
	}
	return true
}

// WriteJCS writes the document as the JSON Canonicalization Scheme has it (RFC 8785): numbers as
// ECMAScript prints the nearest double, so that different decimals can become the same text. The
// caller has asked [Doc.Doubles].
func (d *Doc) WriteJCS(w *Writer) { d.jcs(w, 0) }

func (d *Doc) jcs(w *Writer, i uint32) {
	n := &d.nodes[i]
	switch n.kind {
	case text:
		d.quoted(w, n)
	case number:
		w.double(d.src[n.off:n.end])
	case object:
		open := byte('{')
		for m := n.off; m != 0; m = d.nodes[m].next {
			if name := &d.nodes[m]; name.flags&dropped == 0 {
				w.Byte(open)
				d.quoted(w, name)
				w.Byte(':')
				d.jcs(w, m+1)
				open = ','
			}
		}
		if open == '{' {
			w.Byte('{')
		}
		w.Byte('}')
	case array:
		open := byte('[')
		for e := n.off; e != 0; e = d.nodes[e].next {
			if d.nodes[e].flags&dropped == 0 {
				w.Byte(open)
				d.jcs(w, e)
				open = ','
			}
		}
		if open == '[' {
			w.Byte('[')
		}
		w.Byte(']')
	case yes, no, null:
		w.word(literals[n.kind])
	default:
		panic("canon: a node of an unknown kind")
	}
}

// quoted writes a string. One that had no escapes needs none.
func (d *Doc) quoted(w *Writer, n *node) {
	s := d.bytesOf(n)
	w.Byte('"')
	if n.flags&unescaped != 0 {
		from := 0
		for i, c := range s {
			if c >= ' ' && c != '"' && c != '\\' {
				continue
			}
			w.Raw(s[from:i])
			w.escape(c)
			from = i + 1
		}
		s = s[from:]
	}
	w.Raw(s)
	w.Byte('"')
}

func (w *Writer) word(s string) {
	w.room(len(s))
	w.buf = append(w.buf, s...)
}

// escape writes one of the characters that must be escaped, in the only spelling of RFC 8785
// section 3.2.2.2.
func (w *Writer) escape(c byte) {
	const hex = "0123456789abcdef"
	w.room(6)
	if at := strings.IndexByte(meanings, c); at >= 0 {
		w.buf = append(w.buf, '\\', escapes[at])
	} else {
		w.buf = append(w.buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}

// double writes a number literal as the double next to it.
func (w *Writer) double(lit []byte) {
	if w.short(lit) {
		return
	}
	f, _ := strconv.ParseFloat(string(lit), 64) // Doubles has refused what is out of range
	w.room(32)
	w.buf = appendES6(w.buf, f)
}

// short writes a literal that needs no conversion: no two decimals of at most 15 digits share a
// double, so the shortest spelling of the double is the literal itself, without zeros at the end of
// the fraction. That is nearly every number there is. It reports false, and has written nothing,
// for all others.
func (w *Writer) short(lit []byte) bool {
	whole, fraction, _ := bytes.Cut(lit, []byte("."))
	if len(lit) > 16 || len(fraction) == 0 && len(lit) > 15 || bytes.ContainsAny(lit, "eE") || lit[0] == '-' && whole[1] == '0' {
		return false
	}
	fraction = bytes.TrimRight(fraction, "0")
	if whole[0] == '0' && len(fraction)-len(bytes.TrimLeft(fraction, "0")) > 5 {
		return false // below 1e-6
	}
	w.Raw(whole)
	if len(fraction) > 0 {
		w.Byte('.')
		w.Raw(fraction)
	}
	return true
}

// appendES6 appends a finite double as ECMAScript's Number::toString prints it (RFC 8785 section
// 3.2.2.3): the shortest digits that read back as the same double, the closest of them; an exponent
// only from 1e21 on and below 1e-6.
func appendES6(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // -0 too
	}
	if size := math.Abs(f); 1e-6 <= size && size < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' { // Go prints e-07 where ECMAScript prints e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
