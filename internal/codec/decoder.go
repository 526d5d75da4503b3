package codec

import (
	"encoding/binary"
	"fmt"
)

// decoder reads from a string, so that all strings it returns share one allocation. After an error it returns zero values.
type decoder struct {
	rest string
	err  error
}

// newDecoder reads the version and the number of entries. Each takes two bytes or more, so that a number above half of what
// is there is a lie, and no memory is set aside for it.
func newDecoder(b []byte) (*decoder, int, error) {
	if len(b) == 0 || b[0] != Version {
		return nil, 0, fmt.Errorf("%w: unknown version", ErrFormat)
	}
	d := &decoder{rest: string(b[1:])}
	n := d.uvarint()
	if d.err == nil && n > uint64(len(d.rest)/2) {
		d.fail("more entries than bytes")
	}
	if d.err == nil && n == 0 {
		return d, 0, d.end()
	}
	return d, int(n), d.err
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrFormat, why)
	}
	d.rest = ""
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
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// end is the verdict on the whole.
func (d *decoder) end() error {
	if d.err == nil && d.rest != "" {
		d.fail("bytes after the end")
	}
	return d.err
}
