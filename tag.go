package stet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"
	"sync"

	"github.com/stet-dev/stet/internal/tag"
)

// Tag returns how a record is shown in logs, events and consoles: "k_" and 16 hex digits of
// HMAC-SHA256 under the Pepper, over the length-prefixed scope and key. Records are stored with it,
// and found by it: see [Operator.ByTag].
func (e *Engine) Tag(id ID) string { return e.tags.of(id, "") }

// stamp returns the tag that h is to be written with. The one that it was read with may be of
// another Pepper.
func (e *Engine) stamp(h *Head) string { return e.tags.of(h.ID, h.Tag) }

// tags makes tags. Every request needs one, so the makers are reused.
type tags struct{ makers sync.Pool }

// maker makes one tag at a time. The texts of many tags share their memory. It remembers the last
// one: a request writes its record, reports it in an event, and writes it again.
type maker struct {
	mac   hash.Hash
	buf   []byte
	texts strings.Builder

	last ID
	made string // of last
}

const textsSize = 1 << 10

func newTags(pepper []byte) *tags {
	t := &tags{}
	t.makers.New = func() any { return &maker{mac: hmac.New(sha256.New, pepper)} }
	return t
}

// of makes the tag of id. had is the one that it may turn out to be, whose text is then used again.
func (t *tags) of(id ID, had string) string {
	m := t.makers.Get().(*maker)
	defer t.makers.Put(m)
	if m.made != "" && m.last == id {
		return m.made
	}
	m.buf = m.buf[:0]
	for _, part := range [...]string{string(id.Scope), string(id.Key)} {
		m.buf = append(binary.BigEndian.AppendUint64(m.buf, uint64(len(part))), part...)
	}
	m.mac.Reset()
	_, _ = m.mac.Write(m.buf)
	m.buf = m.mac.Sum(m.buf[:0])
	m.buf = tag.Append(m.buf[:0], binary.BigEndian.Uint64(m.buf))
	m.last = id
	if string(m.buf) == had {
		m.made = had
		return had
	}
	if m.texts.Cap()-m.texts.Len() < len(m.buf) {
		m.texts.Reset()
		m.texts.Grow(textsSize)
	}
	_, _ = m.texts.Write(m.buf)
	all := m.texts.String()
	m.made = all[len(all)-len(m.buf):]
	return m.made
}
