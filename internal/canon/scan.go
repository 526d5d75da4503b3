package canon

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet/internal/hexdigit"
)

// Eight bytes are looked at as one word. A byte of x is below n, or equals c, where subtracting
// made its top bit appear; a borrow can only disturb the bytes after the first such one, and the
// first is all that is asked for.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// str reads the string whose first byte after the quote is at i and returns where it ends, behind
// the closing quote.
func (d *Doc) str(i int) int {
	j, ascii := d.plain(i)
	switch {
	case j >= len(d.src) || d.src[j] < ' ':
		return -1
	case d.src[j] == '\\':
		return d.escaped(i, j)
	case !ascii && !utf8.Valid(d.src[i:j]):
		return -1
	}
	d.nodes = append(d.nodes, node{off: uint32(i), end: uint32(j), kind: text})
	return j + 1
}

// plain returns the first index from j on that holds a quote, a backslash or a control character,
// or len(src). ascii is false if a byte before it, or one close behind it, is beyond ASCII.
func (d *Doc) plain(j int) (end int, ascii bool) {
	s, seen := d.src, uint64(0)
	for j+8 <= len(s) {
		x := binary.LittleEndian.Uint64(s[j:])
		seen |= x
		if m := (x - ' '*ones | (x ^ '"'*ones - ones) | (x ^ '\\'*ones - ones)) &^ x & tops; m != 0 {
			return j + bits.TrailingZeros64(m)/8, seen&tops == 0
		}
		j += 8
	}
	for ; j < len(s) && s[j] != '"' && s[j] != '\\' && s[j] >= ' '; j++ {
		seen |= uint64(s[j])
	}
	return j, seen&tops == 0
}

// escaped continues a string that has its first backslash at j.
func (d *Doc) escaped(i, j int) int {
	start := len(d.text)
	for {
		d.text = append(d.text, d.src[i:j]...)
		if j >= len(d.src) || d.src[j] < ' ' {
			return -1
		}
		if d.src[j] == '"' {
			break
		}
		if i = d.escape(j + 1); i < 0 {
			return -1
		}
		j, _ = d.plain(i)
	}
	if !utf8.Valid(d.text[start:]) {
		return -1
	}
	d.nodes = append(d.nodes, node{off: uint32(start), end: uint32(len(d.text)), kind: text, flags: unescaped})
	return j + 1
}

// escape reads what follows a backslash, adds what it stands for to d.text and returns where it
// ends, or -1.
func (d *Doc) escape(i int) int {
	if i >= len(d.src) {
		return -1
	}
	if d.src[i] == 'u' {
		return d.codePoint(i + 1)
	}
	at := strings.IndexByte(escapes, d.src[i])
	if at < 0 {
		return -1
	}
	d.text = append(d.text, meanings[at])
	return i + 1
}

// escapes are the characters that may follow a backslash, and meanings what each stands for.
const (
	escapes  = `"\/bfnrt`
	meanings = "\"\\/\b\f\n\r\t"
)

// codePoint reads the four digits at i, and the other half of a surrogate pair. Half a pair is
// refused.
func (d *Doc) codePoint(i int) int {
	r := d.hex4(i)
	i += 4
	switch {
	case r < 0 || 0xdc00 <= r && r <= 0xdfff:
		return -1
	case 0xd800 <= r && r <= 0xdbff:
		if i+2 > len(d.src) || d.src[i] != '\\' || d.src[i+1] != 'u' {
			return -1
		}
		low := d.hex4(i + 2)
		if low < 0xdc00 || low > 0xdfff {
			return -1
		}
		r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
		i += 6
	}
	d.text = utf8.AppendRune(d.text, r)
	return i
}

func (d *Doc) hex4(i int) rune {
	if i+4 > len(d.src) {
		return -1
	}
	var r rune
	for _, c := range d.src[i : i+4] {
		n := hexdigit.Value(c)
		if n < 0 {
			return -1
		}
		r = r<<4 | rune(n)
	}
	return r
}

// number reads the number at i by the grammar of RFC 8259 section 6; what it is worth is asked when
// it is written.
func (d *Doc) number(i int) int {
	s, start, form := d.src, i, integer
	if s[i] == '-' {
		i++
	}
	first := i
	if i = digits(s, i); i == first || s[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(s) && s[i] == '.' {
		form = 0
		first = i + 1
		if i = digits(s, first); i == first {
			return -1
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		form = 0
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		first = i
		if i = digits(s, first); i == first {
			return -1
		}
	}
	d.nodes = append(d.nodes, node{off: uint32(start), end: uint32(i), kind: number, flags: form})
	return i
}

// digits returns the first index from i on that is not a digit.
func digits(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}
