package redisstore

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// format is the first byte of what writers give today, and of bodies. Another is refused, for its key alone.
const format = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writer appends fields; lengths make their boundaries certain.
type writer []byte

func (w *writer) text(s string)  { *w = append(binary.AppendUvarint(*w, uint64(len(s))), s...) }
func (w *writer) bytes(b []byte) { *w = append(binary.AppendUvarint(*w, uint64(len(b))), b...) }
func (w *writer) number(n int64) { *w = binary.AppendVarint(*w, n) }

func (w *writer) optional(b []byte) {
	if b == nil {
		*w = append(*w, 0)
		return
	}
	*w = append(*w, 1)
	w.bytes(b)
}

func (w *writer) fields(all []stet.Field) {
	if len(all) == 0 {
		w.text("")
		return
	}
	var room [1024]byte
	w.bytes(codec.AppendFields(room[:0], all))
}

// seal is how long a checksum is.
const seal = 4

// seal ends what was written since from with a checksum that goes on from the owner's.
func (w *writer) seal(from int, owner uint32) {
	*w = binary.BigEndian.AppendUint32(*w, crc32.Update(owner, castagnoli, (*w)[from:]))
}

// buffers are used again, up to a size that most records have: what is encoded or checked is as large as a record, and a record is
// encoded or checked in every call.
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

// A member is a record's name within its shard: the length of its scope, its scope, its key.
func (w *writer) member(id stet.ID) {
	w.text(string(id.Scope))
	*w = append(*w, id.Key...)
}

func idOf(member string) (id stet.ID, ok bool) {
	n, size := binary.Uvarint([]byte(member))
	if size <= 0 || uint64(len(member)-size) < n {
		return id, false
	}
	rest := member[size:]
	return stet.ID{Scope: stet.Scope(rest[:n]), Key: stet.Key(rest[n:])}, true
}

// texts are the fields of a head that are plain strings.
func texts(h *stet.Head) []*string {
	return []*string{&h.Fingerprint.Recipe, &h.Point, &h.Cause, &h.Holder, &h.Route, &h.Method, &h.Path, &h.TraceID}
}

const (
	published = 1 << iota
	reconciled
	escalated
	fromCreation
	noted
	tagged
)

func flagsOf(h *stet.Head) (flags byte) {
	_, known := tag.Parse(h.Tag)
	for bit, on := range [...]bool{h.Published, h.Reconciled, h.Escalated, h.Rules.FromCreation, h.Note != nil, known} {
		if on {
			flags |= 1 << bit
		}
	}
	return flags
}

// head appends what a head is beside what scripts need to know of it.
func (w *writer) head(h *stet.Head) {
	*w = append(*w, byte(h.Kept), byte(h.Rules.OnLapse), flagsOf(h))
	if n, ok := tag.Parse(h.Tag); ok {
		*w = binary.BigEndian.AppendUint64(*w, n)
	}
	*w = append(*w, h.Fingerprint.Sum[:]...)
	for _, p := range h.Fingerprint.Parts {
		*w = binary.BigEndian.AppendUint32(*w, p)
	}
	for _, s := range texts(h) {
		w.text(*s)
	}
	for _, n := range [...]int64{micros(h.DueIn), int64(h.Attempt), int64(h.Status), h.Size, int64(h.Probes),
		int64(h.Rules.Retain), int64(h.Rules.KeepExpired), int64(h.Took)} {
		w.number(n)
	}
	if len(h.Meta) == 0 {
		w.text("")
	} else {
		w.bytes(codec.AppendMeta(nil, h.Meta))
	}
	if n := h.Note; n != nil {
		w.note(n)
	}
}

func (w *writer) note(n *stet.Note) {
	for _, s := range [...]string{n.Who, n.Why, n.Evidence, n.Notice, n.Action} {
		w.text(s)
	}
}

// micros is d in microseconds, and -1 for never.
func micros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Microseconds()
}

// body appends b, sealed.
func (w *writer) body(b *stet.Body, owner uint32) {
	from := len(*w)
	*w = append(*w, format)
	if r := b.Response; r == nil {
		*w = append(*w, 0)
	} else {
		*w = append(*w, 1)
		w.number(int64(r.Status))
		w.fields(r.Header)
		w.fields(r.Trailer)
		w.optional(r.Body)
	}
	w.optional(b.Request)
	w.optional(b.Progress)
	w.seal(from, owner)
}

// Places within a record as now.lua describes it, from 0. The writer's part begins with the format.
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

// stamped is the format and a version, by which scripts tell one write of a record from another.
func stamped(v stet.Version) string {
	return string(binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), format), uint64(v)))
}

// record appends the writer's part of a record, without its body where b is nil. One seal is for all before the body, one for the body.
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
