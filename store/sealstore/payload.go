package sealstore

import (
	"encoding/binary"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// The content of envelopes. All lengths are unsigned varints. The format number of the envelope
// covers these forms, too.

const withResponse = 1 // first byte of a body

func appendBody(dst []byte, b *stet.Body) []byte {
	if r := b.Response; r != nil {
		dst = binary.AppendUvarint(append(dst, withResponse), uint64(r.Status))
		dst = appendBytes(dst, codec.AppendFields(nil, r.Header))
		dst = appendBytes(dst, codec.AppendFields(nil, r.Trailer))
		dst = appendBytes(dst, r.Body)
	} else {
		dst = append(dst, 0)
	}
	return appendBytes(appendBytes(dst, b.Request), b.Progress)
}

// readBody is the inverse of appendBody. Its result refers to src.
func readBody(src []byte) (b stet.Body, err error) {
	r := reader{rest: src}
	if r.byte() == withResponse {
		res := &stet.Response{Status: int(r.uvarint())}
		header, trailer := r.bytes(), r.bytes()
		res.Body = r.bytes()
		if r.failed {
			return b, errContent()
		}
		if res.Header, err = codec.Fields(header); err == nil {
			res.Trailer, err = codec.Fields(trailer)
		}
		if err != nil {
			return b, fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
		}
		b.Response = res
	}
	b.Request, b.Progress = r.bytes(), r.bytes()
	if r.failed || len(r.rest) > 0 {
		return stet.Body{}, errContent()
	}
	return b, nil
}

func appendHead(dst []byte, h *stet.Head) []byte {
	dst = appendBytes(appendBytes(dst, []byte(h.Scope)), []byte(h.Key))
	return codec.AppendMeta(dst, h.Meta)
}

func readHead(src []byte) (id stet.ID, meta map[string]string, err error) {
	r := reader{rest: src}
	id = stet.ID{Scope: stet.Scope(r.bytes()), Key: stet.Key(r.bytes())}
	if r.failed {
		return id, nil, errContent()
	}
	if meta, err = codec.Meta(r.rest); err != nil {
		return id, nil, fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
	}
	return id, meta, nil
}

// errContent is the error for content that was sealed with one of the keys, but not by this
// version.
func errContent() error {
	return fmt.Errorf("%w: what is sealed has another form than this version writes", stet.ErrCorrupt)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// reader reads what the functions above append. After a failure, it returns zero values.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest, r.failed = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest, r.failed = nil, true
	}
	if r.failed || n == 0 {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}
