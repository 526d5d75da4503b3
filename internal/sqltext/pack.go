package sqltext

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// What nobody searches shares a column: what a statement costs a server grows with its columns more than with their bytes.
//
//	fingerprint  sum (32 bytes), parts (4 each), recipe
//	attributes   flags, kept, rules, took, probes; the note's four texts; meta
//	exchange     checksum of the body (4), flags, status; headers, trailers, request, progress
//
// Numbers are varints, and what is of any length has its length in front. [Schema] is the version of all of it.

const (
	hasPublished = 1 << iota
	hasReconciled
	hasFromCreation
	hasNote
	hasMeta
	headFlags = iota
)

const (
	hasResponse = 1 << iota
	bodyFlags   = iota
)

var errPacked = errors.New("not as this program writes it")

func packFingerprint(f *stet.Fingerprint) []byte {
	b := append(make([]byte, 0, len(f.Sum)+4*len(f.Parts)+len(f.Recipe)), f.Sum[:]...)
	for _, p := range f.Parts {
		b = binary.BigEndian.AppendUint32(b, p)
	}
	return append(b, f.Recipe...)
}

func unpackFingerprint(b []byte, f *stet.Fingerprint) error {
	if len(b) < len(f.Sum)+4*len(f.Parts) {
		return errPacked
	}
	b = b[copy(f.Sum[:], b):]
	for i := range f.Parts {
		f.Parts[i], b = binary.BigEndian.Uint32(b), b[4:]
	}
	f.Recipe = string(b)
	return nil
}

func packAttributes(h *stet.Head) []byte {
	b := append(make([]byte, 0, 64), bits(h.Published, h.Reconciled, h.Rules.FromCreation, h.Note != nil, len(h.Meta) > 0), byte(h.Kept), byte(h.Rules.OnLapse))
	for _, n := range [...]int64{int64(h.Rules.Retain), int64(h.Took), int64(h.Probes)} {
		b = binary.AppendVarint(b, n)
	}
	if n := h.Note; n != nil {
		b = appendNote(b, n)
	}
	if len(h.Meta) > 0 {
		b = codec.AppendMeta(b, h.Meta)
	}
	return b
}

func unpackAttributes(b []byte, h *stet.Head) (err error) {
	p := packed{rest: b}
	flags := p.flags(headFlags)
	h.Published, h.Reconciled, h.Rules.FromCreation = flags&hasPublished != 0, flags&hasReconciled != 0, flags&hasFromCreation != 0
	h.Kept, h.Rules.OnLapse = stet.Kept(p.byte()), stet.LapseRule(p.byte())
	h.Rules.Retain, h.Took, h.Probes = time.Duration(p.number()), time.Duration(p.number()), int(p.number())
	if flags&hasNote != 0 {
		h.Note = &stet.Note{Who: string(p.piece()), Why: string(p.piece()), Evidence: string(p.piece()), Notice: string(p.piece()), Action: string(p.piece())}
	}
	if flags&hasMeta != 0 {
		h.Meta, err = codec.Meta(p.rest)
		p.rest = nil
	}
	if err != nil || p.bad || len(p.rest) > 0 || h.Kept > stet.KeptStatus || !h.Rules.OnLapse.Valid() {
		return errPacked
	}
	return nil
}

// packExchange is all of a body but the response's own, which has a column to itself.
func packExchange(id stet.ID, b *stet.Body) []byte {
	x := append(make([]byte, 4, 256), bits(b.Response != nil))
	var body []byte
	if r := b.Response; r != nil {
		body = r.Body
		x = binary.AppendVarint(x, int64(r.Status))
		x = appendFields(appendFields(x, r.Header), r.Trailer)
	}
	x = appendPiece(appendPiece(x, b.Request), b.Progress)
	binary.BigEndian.PutUint32(x, bodySum(id, x[4:], body))
	return x
}

// unpackExchange keeps x and body.
func unpackExchange(id stet.ID, x, body []byte) (b stet.Body, err error) {
	if len(x) < 4 || binary.BigEndian.Uint32(x) != bodySum(id, x[4:], body) {
		return b, errPacked
	}
	p := packed{rest: x[4:]}
	if p.flags(bodyFlags)&hasResponse != 0 {
		b.Response = &stet.Response{Status: int(p.number()), Body: body}
		b.Response.Header, b.Response.Trailer = p.fields(), p.fields()
	}
	b.Request, b.Progress = p.piece(), p.piece()
	if p.bad || len(p.rest) > 0 || b.Response == nil && len(body) > 0 {
		return stet.Body{}, errPacked
	}
	return b, nil
}

// bodySum covers a body, and the name of the record it belongs to.
func bodySum(id stet.ID, exchange, body []byte) uint32 {
	name := appendText(appendText(make([]byte, 0, 128), string(id.Scope)), string(id.Key))
	sum := crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, exchange)
	return crc32.Update(sum, castagnoli, body)
}

func bits(flags ...bool) (b byte) {
	for i, on := range flags {
		if on {
			b |= 1 << i
		}
	}
	return b
}

func appendFields(b []byte, fields []stet.Field) []byte {
	if len(fields) == 0 {
		return appendPiece(b, nil)
	}
	return appendPiece(b, codec.AppendFields(nil, fields))
}

func appendPiece(b, piece []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(piece))), piece...)
}

// packed is read from its beginning. After what is torn it gives zero values.
type packed struct {
	rest []byte
	bad  bool
}

func (p *packed) take(n uint64) []byte {
	if p.bad || n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

func (p *packed) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

// flags refuses those that this program does not know.
func (p *packed) flags(known int) byte {
	b := p.byte()
	p.bad = p.bad || b>>known != 0
	return b
}

func (p *packed) number() int64 {
	n, size := binary.Varint(p.rest)
	p.bad = p.bad || size <= 0
	p.take(uint64(max(size, 0)))
	return n
}

// piece is nil where it is empty.
func (p *packed) piece() []byte {
	n, size := binary.Uvarint(p.rest)
	p.bad = p.bad || size <= 0
	p.take(uint64(max(size, 0)))
	if b := p.take(n); len(b) > 0 {
		return b
	}
	return nil
}

func (p *packed) fields() []stet.Field {
	b := p.piece()
	if b == nil {
		return nil
	}
	fields, err := codec.Fields(b)
	p.bad = p.bad || err != nil
	return fields
}
