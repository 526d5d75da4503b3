package sqltext

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// Checksums make a failing disk an error of one key: SQLite's pages have none of their own, and one bit can turn a result
// that is to be replayed into one that has expired (W29).

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headSum covers a head and its instants.
func headSum(h *stet.Head, s *Stamp) uint32 {
	b := make([]byte, 0, 512)
	for _, text := range [...]string{string(h.Scope), string(h.Key), h.Fingerprint.Recipe, h.Point, h.Cause, h.Holder,
		h.Route, h.Method, h.Path, h.TraceID, h.DownstreamKey, h.DownstreamID} {
		b = appendText(b, text)
	}
	b = append(b, h.Fingerprint.Sum[:]...)
	for _, p := range h.Fingerprint.Parts {
		b = binary.BigEndian.AppendUint32(b, p)
	}
	name, tagged := tag.Parse(h.Tag)
	for _, n := range [...]int64{int64(name), int64(h.Version), int64(h.State), int64(h.Attempt), int64(h.Status), h.Size, int64(h.Kept),
		int64(h.Probes), int64(h.Rules.Retain), int64(h.Rules.KeepExpired), int64(h.Rules.OnLapse), int64(h.Took), s.Due, s.Updated, s.Created, s.Ended} {
		b = binary.AppendVarint(b, n)
	}
	for _, flag := range [...]bool{h.Published, h.Reconciled, h.Escalated, h.Rules.FromCreation, h.Note != nil, s.Never, tagged} {
		b = append(b, '0')
		if flag {
			b[len(b)-1] = '1'
		}
	}
	if h.Note != nil {
		b = appendNote(b, h.Note)
	}
	if len(h.Meta) > 0 {
		b = codec.AppendMeta(b, h.Meta)
	}
	return crc32.Checksum(b, castagnoli)
}

// UnstampedSum covers a head without its instants, for databases that stamp by their own clock: see [Row].
func UnstampedSum(h *stet.Head) int64 { return int64(headSum(h, &Stamp{})) }

func appendNote(b []byte, n *stet.Note) []byte {
	for _, text := range [...]string{n.Who, n.Why, n.Evidence, n.Notice, n.Action} {
		b = appendText(b, text)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
