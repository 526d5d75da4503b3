package canon

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// member is a name whose object is still open. Names are ordered by their UTF-16 code units (RFC
// 8785 section 3.2.3), which compare like UTF-8 bytes but that U+E000…U+FFFF come after the
// surrogates. weight lifts the lead bytes of those over the lead bytes of surrogate pairs, so that
// names compare as bytes by weight.
type member struct {
	prefix uint64 // the weights of the name's first eight bytes, most significant first, zeros behind its end
	name   uint32
}

func weight(c byte) byte {
	if c == 0xee || c == 0xef {
		return c + 0x10
	}
	return c
}

// bytesOf returns the text of a string or number.
func (d *Doc) bytesOf(n *node) []byte {
	if n.flags&unescaped != 0 {
		return d.text[n.off:n.end]
	}
	return d.src[n.off:n.end]
}

func (d *Doc) prefix(name int) uint64 {
	s := d.bytesOf(&d.nodes[name])
	var x uint64
	if len(s) >= 8 {
		x = binary.BigEndian.Uint64(s)
	} else {
		for i, c := range s {
			x |= uint64(c) << (56 - 8*i)
		}
	}
	if x&tops == 0 {
		return x
	}
	x = 0
	for i, c := range s[:min(8, len(s))] {
		x |= uint64(weight(c)) << (56 - 8*i)
	}
	return x
}

func (d *Doc) compare(a, b member) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	s, t := d.bytesOf(&d.nodes[a.name]), d.bytesOf(&d.nodes[b.name])
	n := 0
	for n < len(s) && n < len(t) && s[n] == t[n] {
		n++
	}
	if n == len(s) || n == len(t) {
		return len(s) - len(t)
	}
	return int(weight(s[n])) - int(weight(t[n]))
}

// close orders the members of the object self, those from base on, and chains them. It reports
// false for a repeated name.
func (d *Doc) close(self, base int) bool {
	m := d.members[base:]
	slices.SortFunc(m, d.compare)
	d.nodes[self].off = m[0].name
	for i := 1; i < len(m); i++ {
		if d.compare(m[i-1], m[i]) == 0 {
			return false
		}
		d.nodes[m[i-1].name].next = m[i].name
	}
	d.members = d.members[:base]
	return true
}
