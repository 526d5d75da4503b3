package sqltext

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// The fields that no statement compares share the column head, because the cost of a statement
// grows with its columns more than with their bytes. [Schema] is the version of both:
//
//	head  a checksum (4 bytes), then internal/codec's encoding of the head, without the instants
//	      and the fields that have columns
//	body  a checksum (4 bytes), then internal/codec's encoding of the body
//
// Checksums turn a failing disk into an error of one key. SQLite's pages have none of their own,
// and one bit can turn a result that is to be replayed into one that has expired (W29).

// sumSize is how many bytes a checksum takes at the start of a packed column.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// split parts a head into the fields that have columns and the rest.
func split(h *stet.Head) (columns, rest stet.Head) {
	columns = stet.Head{ID: h.ID, Version: h.Version, State: h.State, Status: h.Status, Route: h.Route, Cause: h.Cause,
		DownstreamKey: h.DownstreamKey, DownstreamID: h.DownstreamID}
	rest = *h
	rest.ID, rest.Version, rest.State, rest.Status, rest.Route, rest.Cause = stet.ID{}, 0, 0, 0, "", ""
	rest.DownstreamKey, rest.DownstreamID = "", ""
	if _, ok := tag.Parse(h.Tag); ok {
		columns.Tag, rest.Tag = h.Tag, ""
	}
	return columns, rest
}

// PackHead returns the column head. Its checksum leaves out the instants: see [Stamp.Seal].
func PackHead(h *stet.Head) []byte {
	columns, rest := split(h)
	b := codec.AppendHead(make([]byte, sumSize, 192), &rest)
	binary.BigEndian.PutUint32(b, headSum(b[sumSize:], &columns))
	return b
}

// headSum covers a head without its instants: the packed rest, and the fields that have columns.
func headSum(rest []byte, columns *stet.Head) uint32 {
	var room [256]byte
	return crc32.Update(crc32.Checksum(rest, castagnoli), castagnoli, codec.AppendHead(room[:0], columns))
}

// sum goes on from a checksum of a head, and covers the instants, too.
func (s *Stamp) sum(head uint32) uint32 {
	var room [4*binary.MaxVarintLen64 + 1]byte
	b := room[:0]
	for _, n := range [...]int64{s.Due, s.Updated, s.Created, s.Ended} {
		b = binary.AppendVarint(b, n)
	}
	if s.Never {
		b = append(b, '1')
	}
	return crc32.Update(head, castagnoli, b)
}

func packBody(id stet.ID, b *stet.Body) []byte {
	size := 256
	if b.Response != nil {
		size += len(b.Response.Body)
	}
	p := codec.AppendBody(make([]byte, sumSize, size+len(b.Request)+len(b.Progress)), b)
	binary.BigEndian.PutUint32(p, bodySum(id, p[sumSize:]))
	return p
}

func unpackBody(id stet.ID, p []byte) (b stet.Body, ok bool) {
	ok = len(p) >= sumSize && binary.BigEndian.Uint32(p) == bodySum(id, p[sumSize:]) && codec.Body(string(p[sumSize:]), &b) == nil
	return b, ok
}

// bodySum covers a body, and the name of the record it belongs to.
func bodySum(id stet.ID, packed []byte) uint32 {
	var room [128]byte
	name := codec.AppendHead(room[:0], &stet.Head{ID: id})
	return crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, packed)
}
