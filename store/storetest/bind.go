package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var bindLaws = []law{
	{"bind", "a write in a transaction is visible after the commit, and to no other reader before it", bindCommits},
	{"bind rolled back", "after a rollback, the writes of the transaction have had no effect", bindRollsBack},
	{"bind verbs",
		"in a transaction, the verbs answer as they do outside and see its own writes; a refusal leaves the transaction usable",
		bindVerbs},
	{"bind due",
		"in a transaction, paging through Due returns each record once, as the transaction has left it", bindDue},
	{"bind foreign",
		"Bind returns ErrForeignTx for a transaction of another kind, and changes nothing", bindForeign},
	{"bind duplicates",
		"while a transaction holds a key, duplicates get an answer within their deadline, and readers at once",
		bindDuplicates},
	{"bind claims",
		"the commit of its transaction settles a claim; after a rollback, the claim continues", bindClaims},
	{"bind undone", "a transaction that can be undone is said to be, and is undone then", bindUndone},
	{"bind ended",
		"in the session of a transaction that has ended nothing is written, and the claim's record is unknown, never completed", bindEnded},
}

// transaction is a transaction of a caller, and a bench whose store is bound to it.
type transaction struct {
	*bench
	tx               any
	commit, rollback func() error
	ending           []string // how it ends otherwise
}

// begin begins a transaction. If the law does not end it, it is rolled back at the end.
func (x *bench) begin() *transaction {
	x.t.Helper()
	b := ability[stet.Binder](x.t, x)
	if x.Backend.Begin == nil {
		x.t.Fatal("the store joins transactions, and the Backend does not say how to begin one")
	}
	tx, commit, rollback := x.Begin(x.t, x.opened)
	over := false
	end := func(how func() error) func() error { return func() error { over = true; return how() } }
	x.t.Cleanup(func() {
		if !over {
			_ = rollback()
		}
	})
	bound, err := b.Bind(tx)
	if err != nil {
		x.t.Fatalf("Bind: %v", err)
	}
	in := *x
	in.store = bound
	return &transaction{bench: &in, tx: tx, commit: end(commit), rollback: end(rollback)}
}

// written is what a transaction wrote: the versions of a record before and after it, 0 if there is
// no record, and the new entries in the history.
type written struct {
	before, after map[stet.ID]stet.Version
	entries       []stet.Change
}

// write uses every verb that writes.
func (tx *transaction) write(old, noted, doomed stet.Record) (w written) {
	tx.t.Helper()
	fresh := running("fresh")
	fresh.Progress, fresh.DownstreamID = []byte("p"), "ch_1"
	fresh = tx.create(fresh)
	done := tx.replace(old.Head, &stet.Body{Response: &stet.Response{Status: 201, Body: []byte("answer")}}, completed)
	moved, entry := tx.note(noted.Head, stet.Note{Who: "w", Why: "y", Evidence: "\xff\x00", Notice: "msg_1"}, unknown)
	if err := tx.store.Delete(tx.ctx, doomed.ID, doomed.Version); err != nil {
		tx.t.Fatalf("Delete: %v", err)
	}
	entries := []stet.Change{entry}
	if _, ok := stet.As[stet.Historian](tx.store); ok {
		told := tx.append(stet.Change{ID: stet.ID{Scope: "a", Key: "beside"}, Note: stet.Note{Who: "w", Action: "outbox-retry"}})
		entries = []stet.Change{told, entry}
	}
	return written{entries: entries,
		before: map[stet.ID]stet.Version{old.ID: old.Version, noted.ID: noted.Version, doomed.ID: doomed.Version, fresh.ID: 0},
		after:  map[stet.ID]stet.Version{old.ID: done.Version, noted.ID: moved.Version, doomed.ID: 0, fresh.ID: fresh.Version}}
}

// happened checks from outside that either all or nothing of it took effect.
func (x *bench) happened(w written, yes bool) {
	x.t.Helper()
	want, entries, named := w.before, []stet.Change(nil), 0
	if yes {
		want, entries, named = w.after, w.entries, 1
	}
	for id, version := range want {
		got, err := x.store.Get(x.ctx, id)
		if err != nil && !errors.Is(err, stet.ErrNotFound) || got.Version != version {
			x.t.Errorf("record %q has version %d (%v), want %d", string(id.Key), got.Version, err, version)
		}
		if answered := got.Response != nil; id.Key == "old" && answered != yes {
			x.t.Errorf("record %q has an answer: %v", string(id.Key), answered)
		}
	}
	if _, ok := stet.As[stet.Historian](x.store); ok {
		x.entries(stet.HistoryQuery{}, entries...)
	}
	if f, ok := stet.As[stet.Finder](x.store); ok {
		if heads, err := f.Find(x.ctx, "", "ch_1"); err != nil || len(heads) != named {
			x.t.Errorf("%d records are found by their name, %v; want %d", len(heads), err, named)
		}
	}
}

func bindCommits(t testing.TB, x *bench) { // I6
	ability[stet.Binder](t, x)
	old, noted, doomed := x.create(running("old")), x.create(running("noted")), x.create(running("doomed"))
	tx := x.begin()
	w := tx.write(old, noted, doomed)
	x.happened(w, false)
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	x.happened(w, true)
	x.replace(x.get(old.ID).Head, nil, func(*stet.Head) {}) // and goes on outside
}

func bindRollsBack(t testing.TB, x *bench) { // I6, W4
	ability[stet.Binder](t, x)
	old, noted, doomed := x.create(running("old")), x.create(running("noted")), x.create(running("doomed"))
	tx := x.begin()
	w := tx.write(old, noted, doomed)
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
	x.happened(w, false)
	x.replace(old.Head, nil, completed)
	x.create(running("fresh"))
}

func bindVerbs(t testing.TB, x *bench) {
	ability[stet.Binder](t, x)
	r := running("k")
	r.Request, r.Progress = []byte("request"), []byte("progress")
	made := x.create(r)
	late := running("late")
	late.DueIn = 0
	late = x.create(late)
	x.pass(10 * time.Millisecond)

	tx := x.begin()
	incumbent, err := tx.store.Create(x.ctx, running("k"))
	if !errors.Is(err, stet.ErrExists) {
		t.Fatalf("Create of what is there: %v", err)
	}
	made.AsOf = incumbent.AsOf
	sameRecord(t, incumbent, made)
	h := made.Head
	h.Version, h.DueIn, h.Note = draw(), 0, &stet.Note{Who: "late"}
	if shown, err := tx.store.Replace(x.ctx, draw(), h, &stet.Body{}); !errors.Is(err, stet.ErrStale) || shown.Version != made.Version {
		t.Fatalf("Replace of a stale version: %v, and shows version %d", err, shown.Version)
	}
	if err := tx.store.Delete(x.ctx, r.ID, draw()); !errors.Is(err, stet.ErrStale) {
		t.Fatalf("Delete with another version: %v", err)
	}
	absent := made.Head
	absent.Key = "absent"
	_, gone := tx.store.Replace(x.ctx, made.Version, absent, nil)
	_, none := tx.store.Get(x.ctx, absent.ID)
	for verb, err := range map[string]error{"Replace": gone, "Get": none, "Delete": tx.store.Delete(x.ctx, absent.ID, made.Version)} {
		if !errors.Is(err, stet.ErrNotFound) {
			t.Fatalf("%s of what is not there: %v", verb, err)
		}
	}
	if heads, _, err := tx.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 1 || heads[0].ID != late.ID {
		t.Errorf("%d are due, %v; want 1", len(heads), err)
	}
	next := tx.replace(made.Head, nil, func(*stet.Head) {}) // what a nil Body keeps is there within, and after
	next = tx.replace(next, nil, completed)
	got := tx.get(r.ID)
	made.Head, made.AsOf = next, got.AsOf
	sameRecord(t, got, made)
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	got = x.get(r.ID)
	made.AsOf = got.AsOf
	sameRecord(t, got, made)
	if _, ok := stet.As[stet.Historian](x.store); ok {
		x.entries(stet.HistoryQuery{})
	}
}

func bindDue(t testing.TB, x *bench) { // A2
	ability[stet.Binder](t, x)
	heads := make([]stet.Head, 12)
	for i := range heads {
		r := running(key(i))
		if r.DueIn = 0; !x.ServerClock {
			r.DueIn = time.Duration(i) * time.Millisecond
		}
		heads[i] = x.create(r).Head
	}
	x.pass(20 * time.Millisecond)
	tx := x.begin()
	tx.replace(heads[3], nil, func(h *stet.Head) { h.DueIn = time.Hour })
	if err := tx.store.Delete(x.ctx, heads[7].ID, heads[7].Version); err != nil {
		t.Fatal(err)
	}
	made := running("made")
	made.DueIn = 0
	made = tx.create(made)
	want := []stet.ID{made.ID}
	for i, h := range heads {
		if i != 3 && i != 7 {
			want = append(want, h.ID)
		}
	}
	for _, limit := range []int{1, 5, 100} {
		tx.once("a walk in a transaction", tx.walk(stet.Query{Limit: limit}, nil), want)
	}
	if _, _, err := tx.store.Due(x.ctx, stet.Query{After: "no cursor \x00"}); err == nil {
		t.Error("in a transaction Due took a cursor that was never given out")
	}
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
}

func bindForeign(t testing.TB, x *bench) {
	b := ability[stet.Binder](t, x)
	for _, tx := range []any{nil, "tx", 1, struct{}{}, x.store} {
		if s, err := b.Bind(tx); !errors.Is(err, stet.ErrForeignTx) || s != nil {
			t.Errorf("Bind(%T): %v", tx, err)
		}
	}
}

func bindDuplicates(t testing.TB, x *bench) { // W4
	ability[stet.Binder](t, x)
	old, other := x.create(running("old")), x.create(running("other"))
	tx := x.begin()
	fresh := tx.create(running("fresh"))
	done := tx.replace(old.Head, nil, completed)

	// duplicate sends what a retry sends. It may be refused, but must not wait for the transaction.
	duplicate := func(key string, incumbents ...stet.Version) {
		t.Helper()
		var got stet.Record
		var err error
		x.within(300*time.Millisecond, "a duplicate beside a transaction", func(ctx context.Context) { got, err = x.store.Create(ctx, running(key)) })
		switch {
		case err == nil:
			t.Errorf("a duplicate of %q created a record that a transaction holds", key)
		case !errors.Is(err, stet.ErrExists): // it was told that this cannot be known now
		case len(incumbents) == 0 || got.Version != incumbents[0]:
			t.Errorf("a duplicate of %q was shown version %d, which nobody may see", key, got.Version)
		}
	}
	duplicate("old", old.Version)
	duplicate("fresh")
	reading, cancel := context.WithTimeout(x.ctx, x.patience)
	defer cancel()
	for _, r := range []stet.Record{old, other} {
		if got, err := x.store.Get(reading, r.ID); err != nil || got.Version != r.Version {
			t.Errorf("Get beside the transaction: version %d (%v), want %d", got.Version, err, r.Version)
		}
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[stet.ID]stet.Version{old.ID: done.Version, fresh.ID: fresh.Version} {
		if got, err := x.store.Create(x.ctx, running(string(id.Key))); !errors.Is(err, stet.ErrExists) || got.Version != want {
			t.Errorf("after the commit a duplicate of %q was shown version %d (%v), want %d", string(id.Key), got.Version, err, want)
		}
	}
}

func bindClaims(t testing.TB, x *bench) { // I6, W4, W7
	ability[stet.Binder](t, x)
	engine, err := stet.New(x.store, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(key string) (*stet.Claim, *transaction) {
		t.Helper()
		d, err := engine.Begin(x.ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)}})
		if err != nil || d.Verdict != stet.Execute {
			t.Fatalf("Begin: %v, %v", d.Verdict, err)
		}
		tx := x.begin()
		if err := d.Claim.In(tx.tx); err != nil {
			t.Fatal(err)
		}
		if err := d.Claim.Settle(x.ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(key)}}); err != nil {
			t.Fatal(err)
		}
		return d.Claim, tx
	}
	claim, tx := begin("committed")
	if err := claim.Confirm(x.ctx, tx.commit()); err != nil {
		t.Errorf("Confirm of a commit: %v", err)
	}
	if got := x.get(claim.ID()); got.State != stet.Completed || got.Response == nil || string(got.Response.Body) != "committed" {
		t.Errorf("after the commit the record is %v", got.State)
	}
	claim, tx = begin("rolled back")
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
	if err := claim.Confirm(x.ctx, errors.New("the caller's reason")); !errors.Is(err, stet.ErrRolledBack) {
		t.Errorf("Confirm of a rollback: %v", err)
	}
	claim.NotExecuted(stet.CauseRolledBack)
	if err := claim.Settle(x.ctx, stet.Outcome{}); err != nil {
		t.Errorf("Settle after the rollback: %v", err)
	}
	if got := x.get(claim.ID()); got.State != stet.Retryable || got.Response != nil {
		t.Errorf("after the rollback the record is %v", got.State)
	}
	claim, tx = begin("answer lost")
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if err := claim.Confirm(x.ctx, errors.New("the answer to COMMIT was lost")); err != nil {
		t.Errorf("Confirm of a commit whose answer was lost: %v", err)
	}
	if err := engine.Drain(x.ctx); err != nil {
		t.Error(err)
	}
}

func bindUndone(t testing.TB, x *bench) { // Q01
	ability[stet.Binder](t, x)
	old, noted, doomed := x.create(running("old")), x.create(running("noted")), x.create(running("doomed"))
	tx := x.begin()
	w := tx.write(old, noted, doomed)
	u, ok := stet.As[stet.Undoer](tx.store)
	if !ok {
		t.Fatal("what Bind returned is no stet.Undoer")
	}
	if err := u.Undoable(x.ctx, nil); err != nil {
		t.Fatalf("Undoable: %v", err)
	}
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
	x.happened(w, false)

	tx = x.begin()
	tx.replace(old.Head, nil, completed)
	if u, ok = stet.As[stet.Undoer](tx.store); !ok || u.Undoable(x.ctx, nil) != nil {
		t.Error("a transaction with a result is said to have ended")
	}
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
	if got := x.get(old.ID); got.State != stet.Running {
		t.Errorf("after the rollback the record is %s", got.State)
	}
}

// endings are how the session of a transaction goes on after it.
var endings = [][]string{{"ROLLBACK"}, {"COMMIT"}, {"ROLLBACK", "BEGIN"}, {"COMMIT", "BEGIN"}}

func bindEnded(t testing.TB, x *bench) { // Q01
	ability[stet.Binder](t, x)
	if x.Send == nil {
		t.Skip("no session outlives its transaction")
	}
	engine, err := stet.New(x.store, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, ending := range endings {
		for j, end := range []func(c *stet.Claim, tx *transaction) error{endsClaim, endsBoundClaim, endsUndone} {
			d, err := engine.Begin(x.ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key(10*i + j))}})
			if err != nil || d.Verdict != stet.Execute {
				t.Fatalf("Begin: %v, %v", d.Verdict, err)
			}
			tx := x.begin()
			tx.ending = ending
			if err := end(d.Claim, tx); !errors.Is(err, stet.ErrTxEnded) {
				t.Errorf("%d: after %v: %v, want ErrTxEnded", j, ending, err)
			}
			_ = tx.rollback() // the database may say that there is none
			if err := d.Claim.Confirm(x.ctx, errors.New("the caller's reason")); !errors.Is(err, stet.ErrTxEnded) {
				t.Errorf("%d: after %v Confirm: %v, want ErrTxEnded", j, ending, err)
			}
			if got := x.get(d.Claim.ID()); got.State != stet.Unknown || got.Cause != stet.CauseTxEnded {
				t.Errorf("%d: after %v the record is %s, because of %q; want unknown", j, ending, got.State, got.Cause)
			}
		}
	}
}

// end ends the transaction as a handler might.
func (tx *transaction) end() {
	for _, statement := range tx.ending {
		tx.Send(tx.t, tx.tx, statement)
	}
}

var created = stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("made")}}

// endsClaim ends the transaction after the claim has become part of it.
func endsClaim(c *stet.Claim, tx *transaction) error {
	if err := c.In(tx.tx); err != nil {
		return err
	}
	tx.end()
	return c.Settle(tx.ctx, created)
}

// endsBoundClaim ends it before.
func endsBoundClaim(c *stet.Claim, tx *transaction) error {
	if err := c.Bind(tx.tx); err != nil {
		return err
	}
	tx.end()
	if err := c.In(tx.tx); err != nil {
		return err
	}
	return c.Settle(tx.ctx, created)
}

// endsUndone ends it, and finds that out where the work is given up.
func endsUndone(c *stet.Claim, tx *transaction) error {
	if err := c.In(tx.tx); err != nil {
		return err
	}
	tx.end()
	return c.Undoable(tx.ctx, nil)
}
