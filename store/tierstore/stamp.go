package tierstore

import (
	"encoding/binary"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// A stamp is what the origin said of a record and a shared cache must not take for its own:
// versions, rules and instants.
//
//	stampVersion · five instants in microseconds · length of the head · head, see package codec
const (
	stampVersion = 4
	stampHead    = 1 + 5*8 // where the length stands
)

func appendStamp(b []byte, h *stet.Head) []byte {
	b = append(b, stampVersion)
	for _, at := range instants(h) {
		b = binary.BigEndian.AppendUint64(b, uint64(codec.Micros(*at)))
	}
	head := codec.AppendHead(nil, &stet.Head{Version: h.Version, State: h.State, Rules: h.Rules, Tag: h.Tag, Note: h.Note})
	return append(binary.AppendUvarint(b, uint64(len(head))), head...)
}

// cutStamp reads a stamp into h, and returns what follows it. Only rest refers to b.
func cutStamp(b []byte, h *stet.Head) (rest []byte, ok bool) {
	if len(b) < stampHead || b[0] != stampVersion {
		return nil, false
	}
	for i, at := range instants(h) {
		*at = codec.Instant(int64(binary.BigEndian.Uint64(b[1+8*i:])))
	}
	size, n := binary.Uvarint(b[stampHead:])
	b = b[stampHead+max(n, 0):]
	if n <= 0 || size > uint64(len(b)) {
		return nil, false
	}
	var said stet.Head
	err := codec.Head(string(b[:size]), &said)
	h.Version, h.State, h.Rules, h.Tag, h.Note = said.Version, said.State, said.Rules, said.Tag, said.Note
	return b[size:], err == nil
}

func instants(h *stet.Head) [5]*time.Time {
	return [...]*time.Time{&h.CreatedAt, &h.UpdatedAt, &h.CompletedAt, &h.DueAt, &h.AsOf}
}
