package sqltext

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// The fields that no statement searches share a column, because the cost of a statement grows with
// its columns more than with their bytes. [Schema] is the version of all of these:
//
//	fingerprint  the sum
//	attributes   internal/codec's encoding of the head, without the instants and the fields that
//	             have columns
//	exchange     a checksum (4 bytes), then internal/codec's encoding of the body, without the
//	             response's own
//
// Checksums turn a failing disk into an error of one key. SQLite's pages have none of their own,
// and one bit can turn a result that is to be replayed into one that has expired (W29).

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errPacked = errors.New("not as this program writes it")

func packAttributes(h *stet.Head) []byte {
	rest := *h
	rest.ID, rest.Version, rest.State, rest.Attempt, rest.Status, rest.Size = stet.ID{}, 0, 0, 0, 0, 0
	rest.Fingerprint.Sum, rest.Escalated, rest.Rules.KeepExpired = [32]byte{}, false, 0
	rest.Holder, rest.Point, rest.Cause, rest.Route, rest.Method, rest.Path, rest.TraceID = "", "", "", "", "", "", ""
	rest.DownstreamKey, rest.DownstreamID = "", ""
	if _, ok := tag.Parse(h.Tag); ok {
		rest.Tag = ""
	}
	return codec.AppendHead(make([]byte, 0, 128), &rest)
}

// packExchange encodes all of a body but the bytes of the response's body, which have a column of
// their own.
func packExchange(id stet.ID, b *stet.Body) []byte {
	rest, body := *b, []byte(nil)
	if b.Response != nil {
		bare := *b.Response
		body, bare.Body, rest.Response = bare.Body, nil, &bare
	}
	x := codec.AppendBody(make([]byte, 4, 256), &rest)
	binary.BigEndian.PutUint32(x, bodySum(id, x[4:], body))
	return x
}

// unpackExchange keeps body.
func unpackExchange(id stet.ID, x, body []byte) (b stet.Body, err error) {
	if len(x) < 4 || binary.BigEndian.Uint32(x) != bodySum(id, x[4:], body) {
		return b, errPacked
	}
	err = codec.Body(string(x[4:]), &b)
	switch r := b.Response; {
	case err != nil, r == nil && len(body) > 0, r != nil && r.Body != nil:
		return stet.Body{}, errPacked
	case r != nil:
		r.Body = body
	}
	return b, nil
}

// bodySum covers a body, and the name of the record it belongs to.
func bodySum(id stet.ID, exchange, body []byte) uint32 {
	name := codec.AppendHead(make([]byte, 0, 128), &stet.Head{ID: id})
	sum := crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, exchange)
	return crc32.Update(sum, castagnoli, body)
}

// headSum covers a head and its instants.
func headSum(h *stet.Head, s *Stamp) uint32 {
	b := codec.AppendHead(make([]byte, 0, 512), h)
	for _, n := range [...]int64{s.Due, s.Updated, s.Created, s.Ended} {
		b = binary.AppendVarint(b, n)
	}
	if s.Never {
		b = append(b, '1')
	}
	return crc32.Checksum(b, castagnoli)
}

// UnstampedSum covers a head without its instants, for databases that stamp by their own clock: see
// [Row].
func UnstampedSum(h *stet.Head) int64 { return int64(headSum(h, &Stamp{})) }
