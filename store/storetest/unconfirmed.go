package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var unconfirmedLaws = []law{
	{"unconfirmed",
		"an unconfirmed write is an error, even if the same write is sent again and finds itself stored", unconfirmed},
	{"unconfirmed claims",
		"an engine neither grants nor settles a claim by an unconfirmed write", unconfirmedClaims},
}

// unconfirm makes writes take effect without being confirmed, or skips the law if that is not
// possible.
func (x *bench) unconfirm() (restore func()) {
	x.t.Helper()
	if x.Unconfirmed == nil {
		x.t.Skip("the store confirms alone")
	}
	return x.Unconfirmed(x.t, x.opened)
}

// tries is how often a write is sent: the second try of an engine must learn no less than its
// first.
const tries = 3

func unconfirmed(t testing.TB, x *bench) { // B01, W34
	kept, calm := x.create(running("kept")), x.create(running("calm"))
	restore := x.unconfirm()
	call := func(do func(ctx context.Context) (shown stet.Version, err error)) (stet.Version, error) {
		ctx, cancel := context.WithTimeout(x.ctx, x.patience)
		defer cancel()
		return do(ctx)
	}
	fresh, next := running("fresh"), kept.Head
	next.Version, next.DueIn = draw(), time.Minute
	create := func(ctx context.Context) (stet.Version, error) {
		got, err := x.store.Create(ctx, fresh)
		return got.Version, err
	}
	replace := func(ctx context.Context) (stet.Version, error) {
		got, err := x.store.Replace(ctx, kept.Version, next, nil)
		return got.Version, err
	}
	for try := range tries {
		if shown, err := call(create); err == nil || errors.Is(err, stet.ErrExists) && shown == fresh.Version {
			t.Errorf("Create, try %d, was not confirmed, and is a yes: %v", try, err)
		}
		if shown, err := call(replace); err == nil || errors.Is(err, stet.ErrStale) && shown == next.Version {
			t.Errorf("Replace, try %d, was not confirmed, and is a yes: %v", try, err)
		}
	}
	shown, err := call(func(ctx context.Context) (stet.Version, error) {
		got, err := x.store.Create(ctx, running("calm"))
		return got.Version, err
	})
	if !errors.Is(err, stet.ErrExists) || shown != calm.Version {
		t.Errorf("a duplicate of what was confirmed before was shown version %d, %v; want %d", shown, err, calm.Version)
	}
	restore()
	if shown, err := call(create); err != nil && !(errors.Is(err, stet.ErrExists) && shown == fresh.Version) {
		t.Errorf("Create, which can be confirmed again: %v", err)
	}
	if shown, err := call(replace); err != nil && !(errors.Is(err, stet.ErrStale) && shown == next.Version) {
		t.Errorf("Replace, which can be confirmed again: %v", err)
	}
}

func unconfirmedClaims(t testing.TB, x *bench) { // B01
	engine, err := stet.New(x.store, stet.Config{StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(key string) (stet.Decision, error) {
		return engine.Begin(x.ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)}})
	}
	held, err := begin("held")
	if err != nil || held.Verdict != stet.Execute {
		t.Fatalf("Begin: %v, %v", held.Verdict, err)
	}
	restore := x.unconfirm()
	if d, err := begin("new"); err == nil {
		t.Errorf("a Begin that could not be confirmed is %v", d.Verdict)
	}
	ctx, cancel := context.WithTimeout(x.ctx, min(x.patience, 5*time.Second))
	defer cancel()
	if err := held.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
		t.Error("a claim was settled by a write that could not be confirmed")
	}
	restore()
	if err := engine.Drain(x.ctx); err != nil {
		t.Error(err)
	}
}
