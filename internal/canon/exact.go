package canon

import (
	"bytes"
	"slices"
	"strconv"
)

// WriteExact writes the document so that two documents give the same bytes exactly if they are the
// same: members in any order, strings by their characters (no Unicode normalisation), numbers by
// their value as decimals of any size.
//
// Literals are one byte; a string is 's', its length and its bytes; an array its elements between
// brackets; an object its names and values between braces; numbers see [Doc.decimal].
func (d *Doc) WriteExact(w *Writer) { d.exact(w, 0) }

// HasAny reports whether the document has a value that one of the pointers points to.
func (d *Doc) HasAny(fields []Pointer) bool {
	return slices.ContainsFunc(fields, func(p Pointer) bool { _, _, ok := d.find(p); return ok })
}

// WriteFields writes what the pointers point to, in their order; what is not there differs from
// every value.
func (d *Doc) WriteFields(w *Writer, fields []Pointer) {
	w.Uint(len(fields))
	for _, p := range fields {
		if _, value, ok := d.find(p); ok {
			d.exact(w, value)
		} else {
			w.Byte('!')
		}
	}
}

func (d *Doc) exact(w *Writer, i uint32) {
	n := &d.nodes[i]
	switch n.kind {
	case text:
		w.tagged('s', d.bytesOf(n))
	case number:
		d.decimal(w, n)
	case object:
		w.Byte('{')
		for m := n.off; m != 0; m = d.nodes[m].next {
			if name := &d.nodes[m]; name.flags&dropped == 0 {
				w.tagged('s', d.bytesOf(name))
				d.exact(w, m+1)
			}
		}
		w.Byte('}')
	case array:
		w.Byte('[')
		for e := n.off; e != 0; e = d.nodes[e].next {
			if d.nodes[e].flags&dropped == 0 {
				d.exact(w, e)
			}
		}
		w.Byte(']')
	case yes, no, null:
		w.Byte(literals[n.kind][0])
	default:
		panic("canon: a node of an unknown kind")
	}
}

// tagged is Byte and Bytes at once, for the short ones.
func (w *Writer) tagged(tag byte, p []byte) {
	if len(p) < 0x80 && len(w.buf)+2+len(p) <= cap(w.buf) {
		w.buf = append(append(w.buf, tag, byte(len(p))), p...)
		return
	}
	w.Byte(tag)
	w.Bytes(p)
}

// decimal writes a number as digits × 10^exponent, the digits without zeros at either end: '+' or
// '-', the digits, the exponent as text, each with its length. An exponent of 0 is the empty text.
// Zero, which has no sign, is '0'. So every value has one spelling, and nothing is ever expanded:
// the work is linear in the literal's length.
func (d *Doc) decimal(w *Writer, n *node) {
	whole := d.src[n.off:n.end]
	sign := byte('+')
	if whole[0] == '-' {
		sign, whole = '-', whole[1:]
	}
	var fraction, power []byte
	if n.flags&integer == 0 {
		if i := bytes.IndexAny(whole, "eE"); i >= 0 {
			whole, power = whole[:i], whole[i+1:]
		}
		whole, fraction, _ = bytes.Cut(whole, []byte("."))
		fraction = bytes.TrimRight(fraction, "0")
	}
	scale := -len(fraction)
	if len(fraction) == 0 {
		short := bytes.TrimRight(whole, "0") // "0" becomes empty here too
		scale = len(whole) - len(short)
		whole = short
	} else if whole[0] == '0' {
		whole, fraction = nil, bytes.TrimLeft(fraction, "0")
	}
	count := len(whole) + len(fraction)
	if count == 0 {
		w.Byte('0')
		return
	}
	w.Byte(sign)
	w.Uint(count)
	w.Raw(whole)
	w.Raw(fraction)
	d.exponent(w, power, scale)
}

// exponent writes power + scale; power is a literal of any length, also none.
func (d *Doc) exponent(w *Writer, power []byte, scale int) {
	if len(power) == 0 && scale == 0 {
		w.Uint(0)
		return
	}
	negative := false
	if len(power) > 0 && (power[0] == '+' || power[0] == '-') {
		negative, power = power[0] == '-', power[1:]
	}
	power = bytes.TrimLeft(power, "0")
	start := len(d.text) // the end of the arena serves as scratch
	if len(power) <= 18 {
		d.text = appendSum(d.text, power, negative, scale)
	} else {
		d.text = appendLongSum(d.text, power, negative, scale)
	}
	w.Bytes(d.text[start:])
	d.text = d.text[:start]
}

// appendSum appends ±power + scale, where power has at most 18 digits and scale less: int64 holds
// all of it.
func appendSum(dst, power []byte, negative bool, scale int) []byte {
	var x int64
	for _, c := range power {
		x = x*10 + int64(c-'0')
	}
	if negative {
		x = -x
	}
	if x += int64(scale); x == 0 {
		return dst
	}
	return strconv.AppendInt(dst, x, 10)
}

// appendLongSum appends ±power + scale, where power has at least 19 digits, none of them a leading
// zero: the last 18 are summed as a number, and a carry or borrow goes through the rest. The sign
// stays, since |scale| is below 2^32.
func appendLongSum(dst, power []byte, negative bool, scale int) []byte {
	const unit = 1_000_000_000_000_000_000
	var low int64
	high := power[:len(power)-18]
	for _, c := range power[len(power)-18:] {
		low = low*10 + int64(c-'0')
	}
	if negative {
		dst = append(dst, '-')
		scale = -scale
	}
	low += int64(scale)
	start := len(dst)
	dst = append(append(dst, '0'), high...) // one place more, for a carry
	switch {
	case low >= unit:
		low -= unit
		i := len(dst) - 1
		for ; dst[i] == '9'; i-- {
			dst[i] = '0'
		}
		dst[i]++
	case low < 0:
		low += unit
		i := len(dst) - 1
		for ; dst[i] == '0'; i-- {
			dst[i] = '9'
		}
		dst[i]--
	}
	for place := int64(unit / 10); place > 0; place /= 10 {
		dst = append(dst, byte('0'+low/place%10))
	}
	return append(dst[:start], bytes.TrimLeft(dst[start:], "0")...)
}
