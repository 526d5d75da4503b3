package memstore

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// entry is a packed record; memory should hold a million of them. Times are in microseconds. What
// most records share, and what few records have, is kept elsewhere. An entry is read and written
// under the lock of its shard. The response and the rare that it points to never change.
type entry struct {
	next     *entry
	key      stet.Key
	label    *label
	path     *string
	rare     *rare
	response *stet.Response
	version  stet.Version
	tag      uint64 // of its head, if it is tagged
	born     uint64 // its place in the order of all keys

	created, updated, due int64

	sum     [32]byte
	parts   [5]uint32
	took    int32 // microseconds
	place   int32 // in the queue
	attempt int32
	status  int32
	state   stet.State
	kept    stet.Kept
	flags   uint8
}

// flags of an entry.
const (
	published = 1 << iota
	reconciled
	escalated
	justCompleted // CompletedAt is UpdatedAt; any other is rare
	tagged
)

// never is the due time of a record that never falls due.
const never = math.MaxInt64

// label holds what many records share.
type label struct {
	scope          stet.Scope
	recipe, holder string
	route, method  string
	rules          stet.Rules
}

// rare holds what few records have.
type rare struct {
	rest              string // the other fields of the head, as internal/codec encodes them
	meta              map[string]string
	note              *stet.Note
	names             [2]string // downstream
	completed         int64
	request, progress []byte
}

func (e *entry) id() stet.ID { return stet.ID{Scope: e.label.scope, Key: e.key} }

// write makes e the record of h and b. If b is nil, the body stays. It keeps no reference to its
// arguments.
func (sh *shard) write(e *entry, h *stet.Head, b *stet.Body, now int64) {
	e.label, e.path = sh.intern(h), sh.share(e.path, h.Path)
	e.version, e.sum, e.parts = h.Version, h.Fingerprint.Sum, h.Fingerprint.Parts
	e.attempt, e.state, e.kept, e.status = int32(h.Attempt), h.State, h.Kept, int32(h.Status)
	e.took = int32(min(h.Took.Microseconds(), math.MaxInt32))
	e.flags = flag(h.Published, published) | flag(h.Reconciled, reconciled) | flag(h.Escalated, escalated)
	e.tag = 0
	if n, ok := tag.Parse(h.Tag); ok {
		e.tag, e.flags = n, e.flags|tagged
	}
	e.created, e.updated, e.due = now, now, never
	if h.DueIn >= 0 {
		e.due = now + h.DueIn.Microseconds()
	}
	if !h.CreatedAt.IsZero() {
		e.created = h.CreatedAt.UnixMicro()
	}
	var completed int64
	switch {
	case h.State != stet.Completed && h.State != stet.Expired:
	case !h.CompletedAt.IsZero():
		completed = h.CompletedAt.UnixMicro()
	case h.State == stet.Completed:
		e.flags |= justCompleted
	}
	var request, progress []byte
	if x := e.rare; b == nil && x != nil {
		request, progress = x.request, x.progress
	}
	if b != nil {
		e.response, request, progress = copied(b.Response), bytes.Clone(b.Request), bytes.Clone(b.Progress)
	}
	e.rare = sh.rareOf(e, h, completed, request, progress)
}

func flag(set bool, bit uint8) uint8 {
	if set {
		return bit
	}
	return 0
}

// short is a response with few headers, in one piece.
type short struct {
	stet.Response
	fields [2]stet.Field
}

func copied(r *stet.Response) *stet.Response {
	if r == nil {
		return nil
	}
	header, trailer, body := r.Header, slices.Clone(r.Trailer), bytes.Clone(r.Body)
	if n := len(header); n == 0 || n > len(short{}.fields) {
		return &stet.Response{Status: r.Status, Header: slices.Clone(header), Trailer: trailer, Body: body, Unframed: r.Unframed}
	}
	s := &short{Response: stet.Response{Status: r.Status, Trailer: trailer, Body: body, Unframed: r.Unframed}}
	s.Header = append(s.fields[:0:len(header)], header...)
	return &s.Response
}

// size is the usual Head.Size.
func (e *entry) size() int64 {
	if e.response == nil {
		return 0
	}
	return int64(len(e.response.Body))
}

// rareOf returns what e has no room for, or nil if that is nothing, as for most records. The
// encoded Size and Took are differences from what e says.
func (sh *shard) rareOf(e *entry, h *stet.Head, completed int64, request, progress []byte) *rare {
	if plain(e, h) && completed == 0 && request == nil && progress == nil {
		return nil
	}
	rest := *h
	rest.ID, rest.Tag, rest.Version, rest.State, rest.Fingerprint = stet.ID{}, "", 0, 0, stet.Fingerprint{}
	rest.Attempt, rest.Status, rest.Kept, rest.Published, rest.Reconciled, rest.Escalated = 0, 0, 0, false, false, false
	rest.Holder, rest.Route, rest.Method, rest.Path, rest.Rules = "", "", "", "", stet.Rules{}
	rest.DownstreamKey, rest.DownstreamID, rest.Meta, rest.Note = "", "", nil, nil
	rest.Size, rest.Took = h.Size-e.size(), 0
	if long(e, h) {
		rest.Took = h.Took - time.Duration(e.took)*time.Microsecond
	}
	sh.encoded = codec.AppendHead(sh.encoded[:0], &rest)
	x := &rare{rest: string(sh.encoded), meta: maps.Clone(h.Meta), completed: completed, request: request, progress: progress,
		names: [2]string{strings.Clone(h.DownstreamKey), strings.Clone(h.DownstreamID)}}
	if h.Note != nil {
		x.note = new(*h.Note)
	}
	return x
}

// plain reports whether e says all of h: whatever else is in a head is rare.
func plain(e *entry, h *stet.Head) bool {
	return h.Point == "" && h.Cause == "" && h.TraceID == "" && h.Probes == 0 && h.Size == e.size() && !long(e, h) &&
		h.Note == nil && h.DownstreamKey == "" && h.DownstreamID == "" && len(h.Meta) == 0
}

// long reports whether e has no room for the time that the execution took. Nearly every time has
// nanoseconds, which are dropped.
func long(e *entry, h *stet.Head) bool { return h.Took.Microseconds() != int64(e.took) }

// maxLabels bounds how many labels a shard remembers for sharing. Records beyond it only use more
// memory.
const maxLabels = 1024

func (sh *shard) intern(h *stet.Head) *label {
	l := label{h.Scope, h.Fingerprint.Recipe, h.Holder, h.Route, h.Method, h.Rules}
	if sh.last != nil && *sh.last == l {
		return sh.last
	}
	have, ok := sh.labels[l]
	if !ok {
		have = &label{stet.Scope(strings.Clone(string(l.scope))), strings.Clone(l.recipe), strings.Clone(l.holder),
			strings.Clone(l.route), strings.Clone(l.method), l.rules}
		if len(sh.labels) >= maxLabels {
			clear(sh.labels)
		}
		sh.labels[*have] = have
	}
	sh.last = have
	return have
}

// share returns a path to keep: the one that is kept already, or that of the shard's newest record
// if it is equal.
func (sh *shard) share(kept *string, path string) *string {
	if kept != nil && *kept == path {
		return kept
	}
	if sh.path == nil || *sh.path != path {
		sh.path = new(strings.Clone(path))
	}
	return sh.path
}

// bears reports whether the head has this tag.
func (e *entry) bears(text string) bool {
	n, ok := tag.Parse(text)
	return ok == (e.flags&tagged != 0) && n == e.tag
}

// name returns the tag of the head, or "". If the tag equals maybe, it returns maybe without an
// allocation.
func (e *entry) name(maybe string) string {
	switch {
	case e.flags&tagged == 0:
		return ""
	case e.bears(maybe):
		return maybe
	}
	return tag.Text(e.tag)
}

// instant is one that is always there: 0 is that of a clock at the epoch, where those of tests may
// stand.
func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// head unpacks into h, which is zero but for a tag that the caller expects. A head is large, so it
// is filled in place and not passed from call to call.
func (e *entry) head(h *stet.Head, now int64) {
	l := e.label
	h.ID, h.Version, h.State, h.Attempt = e.id(), e.version, e.state, int(e.attempt)
	h.Tag = e.name(h.Tag)
	h.Fingerprint.Recipe, h.Fingerprint.Sum, h.Fingerprint.Parts = l.recipe, e.sum, e.parts
	h.Holder, h.Route, h.Method, h.Path, h.Rules = l.holder, l.route, l.method, *e.path, l.rules
	h.Status, h.Kept = int(e.status), e.kept
	h.Published, h.Reconciled, h.Escalated = e.flags&published != 0, e.flags&reconciled != 0, e.flags&escalated != 0
	h.CreatedAt, h.UpdatedAt, h.AsOf = instant(e.created), instant(e.updated), instant(now)
	if e.due != never {
		h.DueAt = instant(e.due)
	}
	if e.flags&justCompleted != 0 {
		h.CompletedAt = h.UpdatedAt
	}
	if x := e.rare; x == nil {
		h.Size, h.Took = e.size(), time.Duration(e.took)*time.Microsecond
	} else {
		if x.completed != 0 {
			h.CompletedAt = codec.Instant(x.completed)
		}
		h.DownstreamKey, h.DownstreamID, h.Meta, h.Note = x.names[0], x.names[1], x.meta, x.note
		x.unpack(h)
		h.Size, h.Took = h.Size+e.size(), h.Took+time.Duration(e.took)*time.Microsecond
	}
}

// unpack decodes what rareOf has encoded.
func (x *rare) unpack(h *stet.Head) {
	if err := codec.Head(x.rest, h); err != nil {
		panic("memstore: " + err.Error())
	}
}

// record unpacks into r as head does. The body is shared; readers must not change it.
func (e *entry) record(r *stet.Record, now int64) {
	e.head(&r.Head, now)
	r.Response = e.response
	if x := e.rare; x != nil {
		r.Request, r.Progress = x.request, x.progress
	}
}
