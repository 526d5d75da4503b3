package stet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/stet-dev/stet/internal/tag"
)

// Tag is how a record is shown in logs, events and consoles: "k_" and 16 hex digits of HMAC-SHA256 under the Pepper, over
// the length-prefixed scope and key. Records are stored with it, and found by it: see [Engine.ByTag].
func (e *Engine) Tag(id ID) string { return tag.Text(e.tags.of(id)) }

// stamp returns the tag that h is to be written with. What h has is mostly right: it is made anew only where it is not.
func (e *Engine) stamp(h *Head) string {
	n := e.tags.of(h.ID)
	if had, ok := tag.Parse(h.Tag); ok && had == n {
		return h.Tag
	}
	return tag.Text(n)
}

// tags makes tags. Every write needs one, so that what makes them is used again.
type tags struct{ makers sync.Pool }

// maker is a keyed hash, with room for what goes in and comes out.
type maker struct {
	mac hash.Hash
	buf []byte
}

func newTags(pepper []byte) *tags {
	t := &tags{}
	t.makers.New = func() any { return &maker{mac: hmac.New(sha256.New, pepper)} }
	return t
}

func (t *tags) of(id ID) uint64 {
	m := t.makers.Get().(*maker)
	defer t.makers.Put(m)
	m.buf = m.buf[:0]
	for _, part := range [...]string{string(id.Scope), string(id.Key)} {
		m.buf = append(binary.BigEndian.AppendUint64(m.buf, uint64(len(part))), part...)
	}
	m.mac.Reset()
	_, _ = m.mac.Write(m.buf)
	m.buf = m.mac.Sum(m.buf[:0])
	return binary.BigEndian.Uint64(m.buf)
}
