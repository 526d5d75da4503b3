// Package codec turns records into bytes for stores whose columns hold bytes. Text columns refuse
// NUL and 0xff, and JSON refuses more, but both may occur in HTTP messages.
//
// Numbers are varints in their shortest form, and each string has its length before it. Every value
// has exactly one encoding, and decoding accepts nothing else. Decoding allocates no more than a
// bounded multiple of its input.
//
// The fields of a [stet.Head] are listed in one place, the method head, which both writes and reads
// them. A new field of Head is added there, and is then kept by every store that gives its heads to
// this package.
package codec

import "errors"

// ErrFormat is returned for bytes that this package did not write, or that a newer version of it
// wrote.
var ErrFormat = errors.New("codec: not a value of this format")
