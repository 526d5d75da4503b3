package stet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/memstore"
)

// marked keeps what is written to it, and refuses what has not the tag of its ID.
type marked struct {
	*memstore.Store
	t      *testing.T
	tag    func(stet.ID) string
	writes map[string]int
}

func (m *marked) saw(verb string, h *stet.Head) {
	m.writes[verb+" "+h.State.String()]++
	if want := m.tag(h.ID); h.Tag != want {
		m.t.Errorf("%s of a record that is %v has the tag %q, want %q", verb, h.State, h.Tag, want)
	}
}

func (m *marked) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	m.saw("create", &r.Head)
	return m.Store.Create(ctx, r)
}

func (m *marked) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	m.saw("replace", &h)
	return m.Store.Replace(ctx, prev, h, b)
}

func (m *marked) Bind(tx any) (stet.Store, error) { return m, nil }

func TestEveryWriteHasItsTag(t *testing.T) { // D04
	s := &marked{Store: memstore.New(memstore.Config{}), t: t, writes: map[string]int{}}
	e, err := stet.New(s, stet.Config{Pepper: []byte("pepper")})
	if err != nil {
		t.Fatal(err)
	}
	s.tag = e.Tag
	ctx, note := t.Context(), stet.Note{Who: "ops", Why: "test"}
	begin := func(key stet.Key) *stet.Claim {
		d, err := e.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: key}})
		if err != nil || d.Claim == nil {
			t.Fatal(d.Verdict, err)
		}
		return d.Claim
	}
	settle := func(c *stet.Claim, o stet.Outcome) {
		if err := c.Settle(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	id := stet.ID{Scope: "s", Key: "k"}
	lost := begin("k")
	lost.Unknown("lost")
	settle(lost, stet.Outcome{})
	if _, err := e.Operator().Resolve(ctx, id, execution.Of(t.Context(), e, id), stet.Resolution{}, note); err != nil {
		t.Fatal(err)
	}
	settle(begin("k"), stet.Outcome{Response: stet.Response{Status: 201}})
	if _, err := e.Operator().Extend(ctx, id, 0, 48*time.Hour, note); err != nil {
		t.Fatal(err)
	}
	if h, err := e.Operator().ByTag(ctx, e.Tag(id)); err != nil || h.ID != id {
		t.Fatalf("by its tag: %v, %v", h.ID, err)
	}
	if err := e.Operator().Purge(ctx, id, 0, note); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Operator().ByTag(ctx, e.Tag(id)); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("after a purge: %v", err)
	}
	d, err := e.BeginIn(ctx, "tx", stet.Request{ID: stet.ID{Scope: "s", Key: "in"}})
	if err != nil {
		t.Fatal(err)
	}
	settle(d.Claim, stet.Outcome{Response: stet.Response{Status: 201}})
	if err := d.Claim.Confirm(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for _, write := range []string{"create running", "replace unknown", "replace retryable", "replace running", "replace completed", "replace expired"} {
		if s.writes[write] == 0 {
			t.Errorf("the test has seen no %s", write)
		}
	}
}

// A record keeps the tag that it was written with, and is found by that, until its next write under
// another pepper.
func TestTagsUnderAnotherPepper(t *testing.T) {
	s := memstore.New(memstore.Config{})
	before, err := stet.New(s, stet.Config{Pepper: []byte("old")})
	if err != nil {
		t.Fatal(err)
	}
	after, err := stet.New(s, stet.Config{Pepper: []byte("new")})
	if err != nil {
		t.Fatal(err)
	}
	other, err := stet.New(s, stet.Config{Pepper: []byte("new")}) // after would remember a tag that it is asked for
	if err != nil {
		t.Fatal(err)
	}
	id := stet.ID{Scope: "s", Key: "k"}
	d, err := before.Begin(t.Context(), stet.Request{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
		t.Fatal(err)
	}
	finds := func(tag string, want bool) {
		t.Helper()
		h, err := after.Operator().ByTag(t.Context(), tag)
		if found := err == nil && h.ID == id; found != want || !found && !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("found: %v, %v; want %v", h.ID, err, want)
		}
	}
	finds(before.Tag(id), true)
	finds(other.Tag(id), false)
	if _, err := after.Operator().Extend(t.Context(), id, 0, 48*time.Hour, stet.Note{Who: "ops", Why: "test"}); err != nil {
		t.Fatal(err)
	}
	finds(before.Tag(id), false)
	finds(other.Tag(id), true)
	finds("", false)
}

// Two records of one tag are named by neither: a tool that acted on one of them might act on the
// wrong one.
func TestATagOfTwoNamesNeither(t *testing.T) {
	s := memstore.New(memstore.Config{})
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []stet.Key{"a", "b"} {
		h := stet.Head{ID: stet.ID{Scope: "s", Key: key}, Tag: "k_0000000000000001", Version: stet.Version(i + 1), State: stet.Running, Attempt: 1}
		if _, err := s.Create(t.Context(), stet.Record{Head: h}); err != nil {
			t.Fatal(err)
		}
	}
	if h, err := e.Operator().ByTag(t.Context(), "k_0000000000000001"); err == nil || errors.Is(err, stet.ErrNotFound) {
		t.Errorf("ByTag: %v, %v", h.ID, err)
	}
}

func BenchmarkTag(b *testing.B) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Pepper: []byte("pepper")})
	if err != nil {
		b.Fatal(err)
	}
	id := stet.ID{Scope: "tenant-1", Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"}
	b.ReportAllocs()
	for b.Loop() {
		e.Tag(id)
	}
}
