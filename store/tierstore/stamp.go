package tierstore

import (
	"encoding/binary"
	"time"

	"github.com/stet-dev/stet"
)

// stampVersion is the first byte of a stamp: what the back said of a record and the front must not take for its own.
const stampVersion = 3

func appendStamp(b []byte, h *stet.Head) []byte {
	b = binary.BigEndian.AppendUint64(append(b, stampVersion), uint64(h.Version))
	b = append(b, byte(h.State), byte(h.Rules.OnLapse), flag(h.Rules.FromCreation), flag(h.Note != nil))
	b = binary.AppendVarint(b, int64(h.Rules.Retain))
	b = binary.AppendVarint(b, int64(h.Rules.KeepExpired))
	for _, at := range instants(h) {
		b = binary.AppendVarint(b, unix(*at))
	}
	b = appendText(b, h.Tag)
	if h.Note != nil {
		for _, s := range [...]string{h.Note.Who, h.Note.Why, h.Note.Evidence, h.Note.Notice} {
			b = appendText(b, s)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cutStamp reads a stamp into h, and returns what follows it. It keeps no reference to b but in rest.
func cutStamp(b []byte, h *stet.Head) (rest []byte, ok bool) {
	if len(b) < 13 || b[0] != stampVersion {
		return nil, false
	}
	h.Version = stet.Version(binary.BigEndian.Uint64(b[1:]))
	h.State, h.Rules.OnLapse, h.Rules.FromCreation = stet.State(b[9]), stet.LapseRule(b[10]), b[11] == 1
	noted := b[12] == 1
	c := cutter{b[13:], true}
	h.Rules.Retain, h.Rules.KeepExpired = time.Duration(c.int()), time.Duration(c.int())
	for _, at := range instants(h) {
		*at = fromUnix(c.int())
	}
	h.Tag, h.Note = c.string(), nil
	if noted {
		h.Note = &stet.Note{Who: c.string(), Why: c.string(), Evidence: c.string(), Notice: c.string()}
	}
	return c.rest, c.ok
}

func instants(h *stet.Head) [5]*time.Time {
	return [...]*time.Time{&h.CreatedAt, &h.UpdatedAt, &h.CompletedAt, &h.DueAt, &h.AsOf}
}

// unix is the instant in microseconds; the zero Time, which is none, is 0.
func unix(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

func fromUnix(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// cutter takes values off the front of bytes. After an error it returns zero values.
type cutter struct {
	rest []byte
	ok   bool
}

func (c *cutter) int() int64 {
	v, n := binary.Varint(c.rest)
	c.skip(n)
	return v
}

func (c *cutter) string() string {
	size, n := binary.Uvarint(c.rest)
	if c.skip(n); size > uint64(len(c.rest)) {
		c.ok = false
	}
	if !c.ok {
		return ""
	}
	s := string(c.rest[:size])
	c.rest = c.rest[size:]
	return s
}

func (c *cutter) skip(n int) {
	if n <= 0 || !c.ok {
		c.rest, c.ok = nil, false
		return
	}
	c.rest = c.rest[n:]
}
