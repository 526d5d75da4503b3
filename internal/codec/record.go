package codec

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/stet-dev/stet"
)

// Format is the version of the encodings of heads and bodies. Stores keep it beside each record,
// and refuse a record of another format. It changes when a list below changes in any way but by a
// new field at its end.
const Format = 2

// head lists the fields of a [stet.Head]. A new field goes to the end. The instants are missing:
// the store's clock sets them, and the store keeps them where it can search and compare them.
func (c *coder) head(h *stet.Head) {
	text(c, &h.Scope)
	text(c, &h.Key)
	text(c, &h.Tag)
	number(c, &h.Version)
	number(c, &h.State)
	c.fixed(h.Fingerprint.Sum[:])
	c.parts(&h.Fingerprint.Parts)
	text(c, &h.Fingerprint.Recipe)
	number(c, &h.Attempt)
	text(c, &h.Point)
	text(c, &h.Cause)
	text(c, &h.Holder)
	text(c, &h.Route)
	text(c, &h.Method)
	text(c, &h.Path)
	text(c, &h.TraceID)
	c.meta(&h.Meta)
	text(c, &h.DownstreamKey)
	text(c, &h.DownstreamID)
	number(c, &h.Status)
	number(c, &h.Size)
	number(c, &h.Kept)
	c.flag(&h.Published)
	c.flag(&h.Reconciled)
	c.flag(&h.Escalated)
	number(c, &h.Probes)
	number(c, &h.Rules.Retain)
	number(c, &h.Rules.KeepExpired)
	c.flag(&h.Rules.FromCreation)
	number(c, &h.Rules.OnLapse)
	number(c, &h.Took)
	c.note(&h.Note)
}

// body lists the fields of a [stet.Body]. A new field goes to the end.
func (c *coder) body(b *stet.Body) {
	if c.next(b.Response != nil) {
		if c.reading {
			b.Response = new(stet.Response)
		}
		r := b.Response
		number(c, &r.Status)
		c.fields(&r.Header)
		c.fields(&r.Trailer)
		c.bytes(&r.Body)
	} else {
		c.field += 4
	}
	c.bytes(&b.Request)
	c.bytes(&b.Progress)
	c.unframed(b.Response)
}

// unframed is a field of the response. It was added when others followed those of the response.
func (c *coder) unframed(r *stet.Response) {
	switch set := c.next(r != nil && r.Unframed); {
	case !set:
	case r == nil:
		c.fail("an end of a response without one")
	default:
		r.Unframed = true
	}
}

// AppendHead appends the encoding of h, without its instants, to dst. A store that keeps some of
// the fields in columns of its own passes a copy of the head in which these fields are zero: what
// is zero takes no room.
func AppendHead(dst []byte, h *stet.Head) []byte {
	c := coder{out: dst}
	c.head(h)
	return c.out
}

// Head decodes what AppendHead wrote into h, and leaves alone the fields that were zero. The
// strings of h share the memory of s.
func Head(s string, h *stet.Head) error {
	c := coder{decoder: decoder{rest: s}, reading: true}
	c.head(h)
	if h.State > stet.Expired || h.Kept > stet.KeptStatus || !h.Rules.OnLapse.Valid() {
		c.fail("a state or a rule that this version does not know")
	}
	return c.end()
}

// AppendBody appends the encoding of b to dst. Nil and empty bytes stay apart.
func AppendBody(dst []byte, b *stet.Body) []byte {
	c := coder{out: dst}
	c.body(b)
	return c.out
}

// Body decodes what AppendBody wrote into b, which is zero. The strings of b share the memory of s;
// the bytes are copies.
func Body(s string, b *stet.Body) error {
	c := coder{decoder: decoder{rest: s}, reading: true}
	c.body(b)
	return c.end()
}

// AppendID appends the name of a record to dst: the length of its scope, its scope, its key.
func AppendID(dst []byte, id stet.ID) []byte {
	return append(appendString(dst, string(id.Scope)), id.Key...)
}

// ID is the inverse of [AppendID]. The strings of id share the memory of s.
func ID(s string) (id stet.ID, ok bool) {
	d := decoder{rest: s}
	id.Scope, id.Key = stet.Scope(d.string()), stet.Key(d.rest)
	return id, d.err == nil
}

// Owned returns r with bytes, a response and a note of its own. It shares its strings and its Meta.
func Owned(r stet.Record) stet.Record {
	if r.Note != nil {
		r.Note = new(*r.Note)
	}
	r.Request, r.Progress = bytes.Clone(r.Request), bytes.Clone(r.Progress)
	if r.Response != nil {
		a := new(*r.Response)
		a.Header, a.Trailer, a.Body = slices.Clone(a.Header), slices.Clone(a.Trailer), bytes.Clone(a.Body)
		r.Response = a
	}
	return r
}

// Check returns [stet.ErrRefused] if h has a value that no store can keep.
func Check(h *stet.Head) error {
	switch {
	case h.Version == 0 || h.Version > math.MaxInt64:
		return fmt.Errorf("%w: a version is a positive 63-bit number", stet.ErrRefused)
	case h.State < stet.Running || h.State > stet.Expired:
		return fmt.Errorf("%w: %s cannot be stored", stet.ErrRefused, h.State)
	case h.Kept > stet.KeptStatus:
		return fmt.Errorf("%w: %d is no Kept", stet.ErrRefused, h.Kept)
	case !h.Rules.OnLapse.Valid():
		return fmt.Errorf("%w: %d is no LapseRule", stet.ErrRefused, h.Rules.OnLapse)
	}
	return nil
}
