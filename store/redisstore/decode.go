package redisstore

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// unsealed checks the format and the checksum of a part of a record, and returns the part from the
// offset at on.
func (d *decoder) unsealed(from, at, to int) (part string, ok bool) {
	end := to - seal
	ok = end >= at && d.value[from] == format &&
		crc32.Update(d.owner, castagnoli, d.bytes[from:end]) == binary.BigEndian.Uint32(d.bytes[end:])
	if ok {
		part = d.value[at:end]
	}
	return part, ok
}

// parseInstant reads 16 digits of microseconds. Zeros mean never.
func parseInstant(s string) (t time.Time, ok bool) {
	us, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) != digits {
		return t, false
	}
	return codec.Instant(int64(us)), true
}

// stamp sets the instants of a write from the beginning of a record.
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

// decoder takes a record apart. What it returns shares memory with value. bytes has the same
// content and may be reused afterwards.
type decoder struct {
	value  string
	bytes  []byte
	member string
	owner  uint32 // the checksum of member
	body   int    // where the body begins, when the head was decoded
}

// head decodes everything but the body.
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
	part, ok := d.unsealed(atFormat, int(at), d.body)
	dueIn, size := binary.Varint([]byte(part[:min(len(part), binary.MaxVarintLen64)]))
	if !ok || size <= 0 || codec.Head(part[size:], h) != nil {
		return false
	}
	h.DueIn = time.Duration(dueIn) * time.Microsecond
	h.Version, h.State = stet.Version(binary.BigEndian.Uint64(d.bytes[atVersion:])), stet.State(d.value[atState])
	h.DownstreamKey, h.DownstreamID = d.value[atNames:atNames+key], d.value[atNames+key:at]
	h.ID, ok = codec.ID(d.member)
	return ok && h.State >= stet.Running && h.State <= stet.Expired && stamp(h, d.value)
}

// rest decodes the body, after the head.
func (d *decoder) rest(b *stet.Body) (ok bool) {
	part, ok := d.unsealed(d.body, d.body+1, len(d.value))
	return ok && codec.Body(part, b) == nil
}
