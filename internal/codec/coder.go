package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-dev/stet"
)

// coder writes the fields of a value, or reads them. Both walk the same list (see head and body),
// so that no field can be written in one way and read in another.
//
// A field is its number, in one byte, and its content. The number is the field's place in the list,
// from 1: a new field is added at the end of its list. A field with its zero value is left out, and
// one that is present with its zero value is refused, so that every value has one encoding.
type coder struct {
	decoder
	out     []byte
	reading bool
	field   byte
}

// next goes on to the next field of the list. It reports whether the field has content to write, or
// to read.
func (c *coder) next(set bool) bool {
	c.field++
	switch {
	case !c.reading && set:
		c.out = append(c.out, c.field)
	case c.reading:
		if set = len(c.rest) > 0 && c.rest[0] == c.field; set {
			c.rest = c.rest[1:]
		}
	}
	return set
}

// want refuses a field that is there without saying anything.
func (c *coder) want(content bool) {
	if !content {
		c.fail("a field is present and has its zero value")
	}
}

func text[S ~string](c *coder, s *S) {
	switch {
	case !c.next(*s != ""):
	case c.reading:
		*s = S(c.string())
		c.want(*s != "")
	default:
		c.out = appendString(c.out, string(*s))
	}
}

func number[N ~int | ~int64 | ~uint64 | ~uint8](c *coder, n *N) {
	switch {
	case !c.next(*n != 0):
	case c.reading:
		u := c.uvarint()
		signed := int64(u>>1) ^ -int64(u&1)
		*n = N(signed)
		c.want(*n != 0)
		if int64(*n) != signed {
			c.fail("a number is too large for its field")
		}
	default:
		c.out = binary.AppendVarint(c.out, int64(*n))
	}
}

// flag has no content: its field is present if it is set.
func (c *coder) flag(set *bool) {
	if c.next(*set) {
		*set = true
	}
}

func (c *coder) bytes(b *[]byte) {
	switch {
	case !c.next(*b != nil):
	case c.reading:
		*b = []byte(c.string())
	default:
		c.out = append(binary.AppendUvarint(c.out, uint64(len(*b))), *b...)
	}
}

// fixed is for bytes of a number that never changes.
func (c *coder) fixed(b []byte) {
	var zero [sha256.Size]byte
	switch {
	case !c.next(!bytes.Equal(b, zero[:len(b)])):
	case c.reading:
		copy(b, c.take(len(b)))
		c.want(!bytes.Equal(b, zero[:len(b)]))
	default:
		c.out = append(c.out, b...)
	}
}

func (c *coder) parts(parts *[5]uint32) {
	var b [20]byte
	for i, p := range parts {
		binary.BigEndian.PutUint32(b[4*i:], p)
	}
	c.fixed(b[:])
	for i := range parts {
		parts[i] = binary.BigEndian.Uint32(b[4*i:])
	}
}

func (c *coder) note(note **stet.Note) {
	if !c.next(*note != nil) {
		return
	}
	if c.reading {
		*note = new(stet.Note)
	}
	n := *note
	for _, s := range [...]*string{&n.Who, &n.Why, &n.Evidence, &n.Notice, &n.Action} {
		c.content(s)
	}
}

// content is a string within a field.
func (c *coder) content(s *string) {
	if c.reading {
		*s = c.string()
	} else {
		c.out = appendString(c.out, *s)
	}
}

func (c *coder) meta(meta *map[string]string) {
	switch {
	case !c.next(len(*meta) > 0):
	case c.reading:
		*meta = c.pairs(c.count())
		c.want(*meta != nil)
	default:
		c.out = binary.AppendUvarint(c.out, uint64(len(*meta)))
		for _, k := range slices.Sorted(maps.Keys(*meta)) {
			c.out = appendString(appendString(c.out, k), (*meta)[k])
		}
	}
}

func (c *coder) fields(fields *[]stet.Field) {
	switch {
	case !c.next(len(*fields) > 0):
	case c.reading:
		*fields = make([]stet.Field, c.count())
		c.want(len(*fields) > 0)
	default:
		c.out = binary.AppendUvarint(c.out, uint64(len(*fields)))
	}
	for i := range *fields {
		c.content(&(*fields)[i].Name)
		c.content(&(*fields)[i].Value)
	}
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decoder reads from a string, so that all strings it returns share its memory. After an error it
// returns zero values.
type decoder struct {
	rest string
	err  error
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrFormat, why)
	}
	d.rest = ""
}

// take returns the next n bytes, or "".
func (d *decoder) take(n int) string {
	if n > len(d.rest) {
		d.fail("bytes are missing")
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := range min(len(d.rest), binary.MaxVarintLen64) {
		c := d.rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				break // not the shortest form
			}
			d.rest = d.rest[i+1:]
			return v
		}
	}
	d.fail("a number is torn")
	return 0
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail("a string is torn")
		return ""
	}
	return d.take(int(n))
}

// count reads the number of pairs that follow. Each takes at least two bytes: a number above half
// of what is left cannot be true, and no memory is allocated for it.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/2) {
		d.fail("more entries than bytes")
		return 0
	}
	return int(n)
}

func (d *decoder) pairs(n int) map[string]string {
	if n == 0 {
		return nil
	}
	meta, last := make(map[string]string, n), ""
	for i := range n {
		k, v := d.string(), d.string()
		if i > 0 && k <= last {
			d.fail("keys are not in order")
		}
		meta[k], last = v, k
	}
	return meta
}

// end fails if anything is left.
func (d *decoder) end() error {
	if d.err == nil && d.rest != "" {
		d.fail("bytes after the end, or a field that this version does not know")
	}
	return d.err
}
