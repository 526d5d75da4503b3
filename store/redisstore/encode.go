package redisstore

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// format is the first byte of what writers give, and of bodies. A record of another format is
// refused, for its key alone.
const format = codec.Format

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writer is what is being encoded.
type writer []byte

// seal is the length of a checksum.
const seal = 4

// seal ends what was written since from with its checksum, which continues the owner's.
func (w *writer) seal(from int, owner uint32) {
	*w = binary.BigEndian.AppendUint32(*w, crc32.Update(owner, castagnoli, (*w)[from:]))
}

// buffers are reused, up to a size that covers most records: every call encodes or checks a buffer
// as large as its record.
type buffers struct{ pool sync.Pool }

const largestBuffer = 64 << 10

func (b *buffers) get() *writer {
	if w, ok := b.pool.Get().(*writer); ok {
		return w
	}
	w := make(writer, 0, 1<<10)
	return &w
}

func (b *buffers) put(w *writer) {
	if *w = (*w)[:0]; cap(*w) <= largestBuffer {
		b.pool.Put(w)
	}
}

// member appends a record's name within its shard: the length of its scope, its scope, its key.
func (w *writer) member(id stet.ID) { *w = codec.AppendID(*w, id) }

// head appends when h falls due, and the fields of h that scripts do not need.
func (w *writer) head(h *stet.Head) {
	rest := *h
	rest.ID, rest.Version, rest.State, rest.DownstreamKey, rest.DownstreamID = stet.ID{}, 0, 0, "", ""
	*w = codec.AppendHead(binary.AppendVarint(*w, micros(h.DueIn)), &rest)
}

// micros returns d in microseconds, or -1 for never.
func micros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Microseconds()
}

// body appends b and its seal.
func (w *writer) body(b *stet.Body, owner uint32) {
	from := len(*w)
	*w = codec.AppendBody(append(*w, format), b)
	w.seal(from, owner)
}

// Offsets within a record as now.lua describes it. The writer's part begins with the format.
const (
	digits    = 16 // of an instant
	atUpdated = digits
	atEnded   = 2 * digits
	atFormat  = 3 * digits
	atVersion = atFormat + 1
	atState   = atVersion + 8
	atLengths = atState + 1
	atNames   = atLengths + 12
)

// stamped returns the format and a version. By these, scripts tell one write of a record from
// another.
func stamped(v stet.Version) string {
	return string(binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), format), uint64(v)))
}

// record appends the writer's part of a record, without its body if b is nil. One seal covers
// everything before the body, another one the body.
func (w *writer) record(h *stet.Head, b *stet.Body, owner uint32) {
	from := len(*w)
	*w = append(binary.BigEndian.AppendUint64(append(*w, format), uint64(h.Version)), byte(h.State))
	*w = binary.BigEndian.AppendUint32(*w, uint32(len(h.DownstreamKey)))
	*w = binary.BigEndian.AppendUint32(*w, uint32(len(h.DownstreamID)))
	length := len(*w)
	*w = append(append(append(*w, 0, 0, 0, 0), h.DownstreamKey...), h.DownstreamID...)
	head := len(*w)
	w.head(h)
	binary.BigEndian.PutUint32((*w)[length:], uint32(len(*w)-head+seal))
	w.seal(from, owner)
	if b != nil {
		w.body(b, owner)
	}
}
