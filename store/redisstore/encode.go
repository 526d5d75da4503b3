package redisstore

import (
	"encoding/binary"
	"hash/crc32"
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
func (w *writer) number(n int64) { *w = binary.AppendVarint(*w, n) }

func (w *writer) optional(b []byte) {
	if b == nil {
		*w = append(*w, 0)
		return
	}
	*w = append(*w, 1)
	w.text(string(b))
}

// sealed ends what was written with a checksum that also covers whose it is.
func (w *writer) sealed(member string) string {
	sum := crc32.Update(crc32.Checksum([]byte(member), castagnoli), castagnoli, *w)
	return string(binary.BigEndian.AppendUint32(*w, sum))
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

func encodeHead(h *stet.Head, member string) string {
	w := writer{format, byte(h.State), byte(h.Kept), byte(h.Rules.OnLapse)}
	var flags byte
	for bit, on := range map[byte]bool{published: h.Published, reconciled: h.Reconciled, escalated: h.Escalated, fromCreation: h.Rules.FromCreation, noted: h.Note != nil} {
		if on {
			flags |= bit
		}
	}
	w = append(w, flags)
	w = append(w, h.Fingerprint.Sum[:]...)
	for _, p := range h.Fingerprint.Parts {
		w = binary.BigEndian.AppendUint32(w, p)
	}
	for _, s := range texts(h) {
		w.text(*s)
	}
	for _, n := range []int64{int64(h.Version), int64(h.Attempt), int64(h.Status), h.Size, int64(h.Probes), int64(h.Rules.Retain),
		int64(h.Rules.KeepExpired), int64(h.Took)} {
		w.number(n)
	}
	w.text(string(codec.AppendMeta(nil, h.Meta)))
	if n := h.Note; n != nil {
		w.text(n.Who)
		w.text(n.Why)
		w.text(n.Evidence)
	}
	return w.sealed(member)
}

// reader takes fields; after an error it gives zero values.
type reader struct {
	rest string
	bad  bool
}

// unsealed checks format and checksum.
func unsealed(s, member string) *reader {
	r := &reader{}
	if len(s) < 5 || s[0] != format {
		return &reader{bad: true}
	}
	body := s[:len(s)-4]
	if crc32.Update(crc32.Checksum([]byte(member), castagnoli), castagnoli, []byte(body)) != binary.BigEndian.Uint32([]byte(s[len(s)-4:])) {
		return &reader{bad: true}
	}
	r.rest = body[1:]
	return r
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

// versionText is a version as scripts know it.
func versionText(v stet.Version) string { return string(binary.BigEndian.AppendUint64(nil, uint64(v))) }

// Places within a record as common.lua packs it.
const (
	atVersion  = 1
	atState    = 9
	atInstants = 10
	atLengths  = 42
	atNames    = 54
)

// instant is zero for what never is.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// decodeValue decodes a record up to its body, which is the rest. The head says again what scripts were told.
func decodeValue(v, member string) (h stet.Head, rest string, ok bool) {
	if len(v) < atNames || v[0] != format {
		return h, "", false
	}
	b := []byte(v[:atNames])
	names := uint64(binary.BigEndian.Uint32(b[atLengths:])) + uint64(binary.BigEndian.Uint32(b[atLengths+4:]))
	end := atNames + names + uint64(binary.BigEndian.Uint32(b[atLengths+8:]))
	if end > uint64(len(v)) {
		return h, "", false
	}
	h, ok = decodeHead(v[atNames+names:end], member)
	if !ok || h.Version != stet.Version(binary.BigEndian.Uint64(b[atVersion:])) || h.State != stet.State(b[atState]) ||
		v[atNames:atNames+names] != h.DownstreamKey+h.DownstreamID {
		return h, "", false
	}
	for i, at := range []*time.Time{&h.CreatedAt, &h.UpdatedAt, &h.DueAt, &h.CompletedAt} {
		*at = instant(int64(binary.BigEndian.Uint64(b[atInstants+8*i:])))
	}
	return h, v[end:], true
}

func decodeHead(s, member string) (h stet.Head, ok bool) {
	if h.ID, ok = idOf(member); !ok {
		return h, false
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
	for _, s := range texts(&h) {
		*s = r.text()
	}
	h.Version, h.Attempt, h.Status, h.Size = stet.Version(r.number()), int(r.number()), int(r.number()), r.number()
	h.Probes, h.Rules.Retain, h.Rules.KeepExpired = int(r.number()), time.Duration(r.number()), time.Duration(r.number())
	h.Took = time.Duration(r.number())
	meta := r.text()
	if r.bad {
		return h, false
	}
	var err error
	if h.Meta, err = codec.Meta([]byte(meta)); err != nil {
		return h, false
	}
	if flags&noted != 0 {
		h.Note = &stet.Note{Who: r.text(), Why: r.text(), Evidence: r.text()}
	}
	return h, !r.bad && r.rest == "" && h.State >= stet.Running && h.State <= stet.Expired && h.Kept <= stet.KeptStatus && h.Rules.OnLapse <= stet.LapseReexecute
}

func encodeBody(b *stet.Body, member string) string {
	w := writer{format}
	if r := b.Response; r == nil {
		w = append(w, 0)
	} else {
		w = append(w, 1)
		w.number(int64(r.Status))
		w.text(string(codec.AppendFields(nil, r.Header)))
		w.text(string(codec.AppendFields(nil, r.Trailer)))
		w.optional(r.Body)
	}
	w.optional(b.Request)
	w.optional(b.Progress)
	return w.sealed(member)
}

func decodeBody(s, member string) (b stet.Body, ok bool) {
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
			return b, false
		}
	}
	b.Request, b.Progress = r.optional(), r.optional()
	return b, !r.bad && r.rest == ""
}
