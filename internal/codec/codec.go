// Package codec turns records and metadata into bytes for stores whose columns hold
// bytes. Text columns refuse NUL and 0xff, and JSON refuses more, but both may occur in HTTP
// messages.
//
// Numbers are varints in their shortest form, and each string has its length before it. Every value
// has exactly one encoding, and decoding accepts nothing else. Decoding allocates no more than a
// bounded multiple of its input.
//
// The fields of a [stet.Head] are listed in one place, the method head, which both writes and reads
// them. A new field of Head is added there, and is then kept by every store that gives its heads to
// this package.
package codec

import (
	"errors"
	"fmt"
)

// version is the first byte of the encoding of metadata.
const version = 1

// ErrFormat is returned for bytes that this package did not write, or that a newer version of it
// wrote.
var ErrFormat = errors.New("codec: not a value of this format")

// AppendMeta appends the encoding of a map, sorted by key, to dst.
func AppendMeta(dst []byte, meta map[string]string) []byte {
	return appendMeta(append(dst, version), meta)
}

// Meta decodes what AppendMeta wrote. An empty map comes back as nil. It keeps no reference to b.
func Meta(b []byte) (map[string]string, error) {
	if len(b) == 0 || b[0] != version {
		return nil, fmt.Errorf("%w: unknown version", ErrFormat)
	}
	d := decoder{rest: string(b[1:])}
	meta := d.pairs(d.count())
	return meta, d.end()
}
