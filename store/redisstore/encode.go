package redisstore

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// format is the first byte of heads and bodies written today. Another is refused, for its key alone.
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

// seal ends what was written since from with a checksum that also covers whose it is.
func (w *writer) seal(from int, member string) {
	*w = binary.BigEndian.AppendUint32(*w, checksum((*w)[from:], member))
}

func checksum(b []byte, member string) uint32 {
	return crc32.Update(crc32.Checksum([]byte(member), castagnoli), castagnoli, b)
}

// memberOf names a record within its shard.
func memberOf(id stet.ID) string {
	var w writer
	w.text(string(id.Scope))
	return string(append(w, id.Key...))
}

func idOf(member string) (id stet.ID, ok bool) {
	n, size := binary.Uvarint([]byte(member))
	if size <= 0 || uint64(len(member)-size) < n {
		return id, false
	}
	rest := member[size:]
	return stet.ID{Scope: stet.Scope(rest[:n]), Key: stet.Key(rest[n:])}, true
}

// texts and numbers are the fields of a head that are plain strings and numbers.
func texts(h *stet.Head) []*string {
	return []*string{&h.Fingerprint.Recipe, &h.Point, &h.Cause, &h.Holder, &h.Route, &h.Method, &h.Path, &h.TraceID, &h.DownstreamKey, &h.DownstreamID}
}

const (
	published = 1 << iota
	reconciled
	escalated
	fromCreation
	noted
)

func flagsOf(h *stet.Head) (flags byte) {
	for bit, on := range [...]bool{h.Published, h.Reconciled, h.Escalated, h.Rules.FromCreation, h.Note != nil} {
		if on {
			flags |= 1 << bit
		}
	}
	return flags
}

// head appends h, sealed.
func (w *writer) head(h *stet.Head, member string) {
	from := len(*w)
	*w = append(*w, format, byte(h.State), byte(h.Kept), byte(h.Rules.OnLapse), flagsOf(h))
	*w = append(*w, h.Fingerprint.Sum[:]...)
	for _, p := range h.Fingerprint.Parts {
		*w = binary.BigEndian.AppendUint32(*w, p)
	}
	for _, s := range texts(h) {
		w.text(*s)
	}
	for _, n := range [...]int64{int64(h.Version), micros(h.DueIn), int64(h.Attempt), int64(h.Status), h.Size, int64(h.Probes),
		int64(h.Rules.Retain), int64(h.Rules.KeepExpired), int64(h.Took)} {
		w.number(n)
	}
	var meta [128]byte
	w.bytes(codec.AppendMeta(meta[:0], h.Meta))
	if n := h.Note; n != nil {
		w.text(n.Who)
		w.text(n.Why)
		w.text(n.Evidence)
	}
	w.seal(from, member)
}

// micros is d in microseconds, and -1 for never.
func micros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Microseconds()
}

// body appends b, sealed.
func (w *writer) body(b *stet.Body, member string) {
	from := len(*w)
	*w = append(*w, format)
	if r := b.Response; r == nil {
		*w = append(*w, 0)
	} else {
		*w = append(*w, 1)
		w.number(int64(r.Status))
		var fields [1024]byte
		w.bytes(codec.AppendFields(fields[:0], r.Header))
		w.bytes(codec.AppendFields(fields[:0], r.Trailer))
		w.optional(r.Body)
	}
	w.optional(b.Request)
	w.optional(b.Progress)
	w.seal(from, member)
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

// tag is the format and a version, by which scripts tell one write of a record from another.
func tag(v stet.Version) string {
	return string(binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), format), uint64(v)))
}

// encode returns the writer's part of a record, without its body where b is nil.
func encode(h *stet.Head, b *stet.Body, member string) string {
	const heads, lines = 320, 48 // about how long what has no length of its own is
	size := heads + len(h.DownstreamKey) + len(h.DownstreamID)
	if b != nil {
		size += len(b.Request) + len(b.Progress)
		if r := b.Response; r != nil {
			size += lines*(len(r.Header)+len(r.Trailer)) + len(r.Body)
		}
	}
	w := append(make(writer, 0, size), format)
	w = append(binary.BigEndian.AppendUint64(w, uint64(h.Version)), byte(h.State))
	w = binary.BigEndian.AppendUint32(w, uint32(len(h.DownstreamKey)))
	w = binary.BigEndian.AppendUint32(w, uint32(len(h.DownstreamID)))
	length := len(w)
	w = append(append(append(w, 0, 0, 0, 0), h.DownstreamKey...), h.DownstreamID...)
	from := len(w)
	w.head(h, member)
	binary.BigEndian.PutUint32(w[length:], uint32(len(w)-from))
	if b != nil {
		w.body(b, member)
	}
	return string(w)
}

// reader takes fields; after an error it gives zero values.
type reader struct {
	rest string
	bad  bool
}

// unsealed checks format and checksum.
func unsealed(s, member string) reader {
	if len(s) < 5 || s[0] != format || checksum([]byte(s[:len(s)-4]), member) != binary.BigEndian.Uint32([]byte(s[len(s)-4:])) {
		return reader{bad: true}
	}
	return reader{rest: s[1 : len(s)-4]}
}

func (r *reader) take(n uint64) string {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad, r.rest = true, ""
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) byte() byte {
	if s := r.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (r *reader) text() string {
	n, size := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 {
		r.bad = true
		return ""
	}
	r.take(uint64(size))
	return r.take(n)
}

func (r *reader) number() int64 {
	n, size := binary.Varint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.take(uint64(size))
	return n
}

func (r *reader) optional() []byte {
	if r.byte() == 0 {
		return nil
	}
	return []byte(r.text())
}

// parseInstant reads 16 digits of microseconds; zeros are never.
func parseInstant(s string) (t time.Time, ok bool) {
	us, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) != digits {
		return t, false
	}
	if us != 0 {
		t = time.UnixMicro(int64(us)).UTC()
	}
	return t, true
}

// stamp sets the instants of a write, by a record's beginning.
func stamp(h *stet.Head, v string) (ok bool) {
	if len(v) < atFormat {
		return false
	}
	var ok1, ok2, ok3 bool
	h.CreatedAt, ok1 = parseInstant(v[:atUpdated])
	h.UpdatedAt, ok2 = parseInstant(v[atUpdated:atEnded])
	h.CompletedAt, ok3 = parseInstant(v[atEnded:atFormat])
	h.DueAt = time.Time{}
	if h.DueIn >= 0 {
		h.DueAt = h.UpdatedAt.Add(h.DueIn.Truncate(time.Microsecond))
	}
	h.DueIn = 0
	return ok1 && ok2 && ok3
}

// decode decodes a record up to its body, which is the rest. The head says again what scripts were told.
func decode(h *stet.Head, v, member string) (rest string, ok bool) {
	if len(v) < atNames || v[atFormat] != format {
		return "", false
	}
	lengths := []byte(v[atLengths:atNames])
	names := uint64(binary.BigEndian.Uint32(lengths)) + uint64(binary.BigEndian.Uint32(lengths[4:]))
	head := v[atNames:]
	if names > uint64(len(head)) {
		return "", false
	}
	said, head := head[:names], head[names:]
	size := binary.BigEndian.Uint32(lengths[8:])
	if uint64(size) > uint64(len(head)) || !decodeHead(h, head[:size], member) || !stamp(h, v) {
		return "", false
	}
	return head[size:], h.Version == stet.Version(binary.BigEndian.Uint64([]byte(v[atVersion:atState]))) && h.State == stet.State(v[atState]) &&
		binary.BigEndian.Uint32(lengths) == uint32(len(h.DownstreamKey)) && said == h.DownstreamKey+h.DownstreamID
}

func decodeHead(h *stet.Head, s, member string) (ok bool) {
	if h.ID, ok = idOf(member); !ok {
		return false
	}
	r := unsealed(s, member)
	h.State, h.Kept, h.Rules.OnLapse = stet.State(r.byte()), stet.Kept(r.byte()), stet.LapseRule(r.byte())
	flags := r.byte()
	h.Published, h.Reconciled, h.Escalated, h.Rules.FromCreation = flags&published != 0, flags&reconciled != 0, flags&escalated != 0, flags&fromCreation != 0
	copy(h.Fingerprint.Sum[:], r.take(uint64(len(h.Fingerprint.Sum))))
	for i := range h.Fingerprint.Parts {
		if b := r.take(4); b != "" {
			h.Fingerprint.Parts[i] = binary.BigEndian.Uint32([]byte(b))
		}
	}
	for _, s := range texts(h) {
		*s = r.text()
	}
	h.Version, h.DueIn, h.Attempt, h.Status = stet.Version(r.number()), time.Duration(r.number())*time.Microsecond, int(r.number()), int(r.number())
	h.Size, h.Probes, h.Rules.Retain, h.Rules.KeepExpired = r.number(), int(r.number()), time.Duration(r.number()), time.Duration(r.number())
	h.Took = time.Duration(r.number())
	meta := r.text()
	if r.bad {
		return false
	}
	var err error
	if h.Meta, err = codec.Meta([]byte(meta)); err != nil {
		return false
	}
	if flags&noted != 0 {
		h.Note = &stet.Note{Who: r.text(), Why: r.text(), Evidence: r.text()}
	}
	return !r.bad && r.rest == "" && h.State >= stet.Running && h.State <= stet.Expired && h.Kept <= stet.KeptStatus && h.Rules.OnLapse <= stet.LapseReexecute
}

func decodeBody(b *stet.Body, s, member string) bool {
	r := unsealed(s, member)
	if r.byte() == 1 {
		b.Response = &stet.Response{Status: int(r.number())}
		header, trailer := r.text(), r.text()
		b.Response.Body = r.optional()
		var err1, err2 error
		if !r.bad {
			b.Response.Header, err1 = codec.Fields([]byte(header))
			b.Response.Trailer, err2 = codec.Fields([]byte(trailer))
		}
		if err1 != nil || err2 != nil {
			return false
		}
	}
	b.Request, b.Progress = r.optional(), r.optional()
	return !r.bad && r.rest == ""
}
