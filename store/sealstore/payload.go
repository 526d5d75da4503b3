package sealstore

import (
	"encoding/binary"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// The content of envelopes. The format number of the envelope covers these forms, too.

// sealedBody has the bytes of the response, which may be many, at its end, where readBody need not
// copy them. Before them stands the length and the encoding of everything else.
func sealedBody(b *stet.Body) []byte {
	rest, large := *b, []byte(nil)
	if b.Response != nil {
		r := *b.Response
		r.Body, large = r.Body[:0], r.Body
		rest.Response = &r
	}
	small := codec.AppendBody(nil, &rest)
	out := make([]byte, 0, binary.MaxVarintLen64+len(small)+len(large))
	return append(append(binary.AppendUvarint(out, uint64(len(small))), small...), large...)
}

// readBody is the inverse of sealedBody. Its result refers to src.
func readBody(src []byte) (b stet.Body, err error) {
	n, size := binary.Uvarint(src)
	if size <= 0 || n > uint64(len(src)-size) {
		return b, errContent
	}
	small, large := src[size:size+int(n)], src[size+int(n):]
	if codec.Body(string(small), &b) != nil {
		return stet.Body{}, errContent
	}
	switch r := b.Response; {
	case r != nil && r.Body != nil && len(r.Body) == 0:
		r.Body = large
	case len(large) > 0 || r != nil && r.Body != nil:
		return stet.Body{}, errContent
	}
	return b, nil
}

// readHead reads the names of a record and what was sealed with them, of which package codec has
// written the part of a head that they are.
func readHead(src []byte) (h stet.Head, err error) {
	if codec.Head(string(src), &h) != nil {
		err = errContent
	}
	return h, err
}

// errContent is the error for content that was sealed with one of the keys, but not by this
// version.
var errContent = fmt.Errorf("%w: what is sealed has another form than this version writes", stet.ErrCorrupt)
