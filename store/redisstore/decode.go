package redisstore

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// reader takes fields; after an error it gives zero values.
type reader struct {
	rest string
	bad  bool
}

// unsealed checks format and checksum of a part of a record, and reads it from the place at.
func (d *decoder) unsealed(from, at, to int) reader {
	if end := to - seal; end < at || d.value[from] != format || crc32.Update(d.owner, castagnoli, d.bytes[from:end]) != binary.BigEndian.Uint32(d.bytes[end:]) {
		return reader{bad: true}
	}
	return reader{rest: d.value[at : to-seal]}
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

func (r *reader) fields() (all []stet.Field) {
	if text := r.text(); text != "" {
		var err error
		if all, err = codec.Fields([]byte(text)); err != nil {
			r.bad = true
		}
	}
	return all
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

// decoder takes a record apart. What it returns shares memory with value, and none with bytes, which is the same.
type decoder struct {
	value  string
	bytes  []byte
	member string
	owner  uint32 // the checksum of member
	body   int    // where the body begins, when the head was decoded
}

// head decodes all but the body.
func (d *decoder) head(h *stet.Head) (ok bool) {
	if len(d.value) < atNames {
		return false
	}
	key, id := uint64(binary.BigEndian.Uint32(d.bytes[atLengths:])), uint64(binary.BigEndian.Uint32(d.bytes[atLengths+4:]))
	at := atNames + key + id
	end := at + uint64(binary.BigEndian.Uint32(d.bytes[atLengths+8:]))
	if end > uint64(len(d.value)) {
		return false
	}
	d.body = int(end)
	r := d.unsealed(atFormat, int(at), d.body)
	if r.bad || !r.head(h) {
		return false
	}
	h.Version, h.State = stet.Version(binary.BigEndian.Uint64(d.bytes[atVersion:])), stet.State(d.value[atState])
	h.DownstreamKey, h.DownstreamID = d.value[atNames:atNames+key], d.value[atNames+key:at]
	h.ID, ok = idOf(d.member)
	return ok && h.State >= stet.Running && h.State <= stet.Expired && stamp(h, d.value)
}

func (r *reader) head(h *stet.Head) (ok bool) {
	h.Kept, h.Rules.OnLapse = stet.Kept(r.byte()), stet.LapseRule(r.byte())
	flags := r.byte()
	h.Published, h.Reconciled, h.Escalated, h.Rules.FromCreation = flags&published != 0, flags&reconciled != 0, flags&escalated != 0, flags&fromCreation != 0
	if flags&tagged != 0 {
		if b := r.take(8); b != "" {
			h.Tag = tag.Text(binary.BigEndian.Uint64([]byte(b)))
		}
	}
	copy(h.Fingerprint.Sum[:], r.take(uint64(len(h.Fingerprint.Sum))))
	for i := range h.Fingerprint.Parts {
		if b := r.take(4); b != "" {
			h.Fingerprint.Parts[i] = binary.BigEndian.Uint32([]byte(b))
		}
	}
	for _, s := range texts(h) {
		*s = r.text()
	}
	h.DueIn, h.Attempt, h.Status = time.Duration(r.number())*time.Microsecond, int(r.number()), int(r.number())
	h.Size, h.Probes, h.Rules.Retain, h.Rules.KeepExpired = r.number(), int(r.number()), time.Duration(r.number()), time.Duration(r.number())
	h.Took = time.Duration(r.number())
	if meta := r.text(); meta != "" {
		var err error
		if h.Meta, err = codec.Meta([]byte(meta)); err != nil {
			return false
		}
	}
	if flags&noted != 0 {
		n := r.note()
		h.Note = &n
	}
	return !r.bad && r.rest == "" && h.Kept <= stet.KeptStatus && h.Rules.OnLapse.Valid()
}

func (r *reader) note() stet.Note {
	return stet.Note{Who: r.text(), Why: r.text(), Evidence: r.text(), Notice: r.text(), Action: r.text()}
}

// rest decodes the body, after the head.
func (d *decoder) rest(b *stet.Body) (ok bool) {
	r := d.unsealed(d.body, d.body+1, len(d.value))
	if r.byte() == 1 {
		b.Response = &stet.Response{Status: int(r.number())}
		b.Response.Header, b.Response.Trailer = r.fields(), r.fields()
		b.Response.Body = r.optional()
	}
	b.Request, b.Progress = r.optional(), r.optional()
	return !r.bad && r.rest == ""
}
