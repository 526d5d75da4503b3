// Package codec turns header lines and metadata into bytes for stores whose columns hold bytes. Text columns refuse NUL and
// 0xff, JSON refuses more, and all of it is honest data of HTTP messages.
//
// The format: one version byte, the number of entries, then for each the length and bytes of its two strings; numbers are
// unsigned varints in their shortest form. Every value has exactly one encoding, and decoding accepts nothing else. Decoding
// sets no more memory aside than a bounded multiple of its input.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-dev/stet"
)

// Version is the first byte of what is written today.
const Version = 1

// ErrFormat: the bytes are not what this package wrote, or a newer version of it did.
var ErrFormat = errors.New("codec: not a value of this format")

// AppendFields appends the encoding of header or trailer lines, in their order, to dst.
func AppendFields(dst []byte, fields []stet.Field) []byte {
	dst = appendCount(dst, len(fields))
	for _, f := range fields {
		dst = appendPair(dst, f.Name, f.Value)
	}
	return dst
}

// Fields decodes what AppendFields wrote. No fields come back as nil. It keeps no reference to b.
func Fields(b []byte) ([]stet.Field, error) {
	d, n, err := newDecoder(b)
	if err != nil || n == 0 {
		return nil, err
	}
	fields := make([]stet.Field, n)
	for i := range fields {
		fields[i].Name, fields[i].Value = d.string(), d.string()
	}
	return fields, d.end()
}

// AppendMeta appends the encoding of a map, sorted by key, to dst.
func AppendMeta(dst []byte, meta map[string]string) []byte {
	dst = appendCount(dst, len(meta))
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		dst = appendPair(dst, k, meta[k])
	}
	return dst
}

// Meta decodes what AppendMeta wrote. An empty map comes back as nil. It keeps no reference to b.
func Meta(b []byte) (map[string]string, error) {
	d, n, err := newDecoder(b)
	if err != nil || n == 0 {
		return nil, err
	}
	meta := make(map[string]string, n)
	last := ""
	for i := range n {
		k, v := d.string(), d.string()
		if i > 0 && k <= last {
			return nil, fmt.Errorf("%w: keys are not in order", ErrFormat)
		}
		meta[k], last = v, k
	}
	return meta, d.end()
}

func appendCount(dst []byte, n int) []byte {
	return binary.AppendUvarint(append(dst, Version), uint64(n))
}

func appendPair(dst []byte, a, b string) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(a))), a...)
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
