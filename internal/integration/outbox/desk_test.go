package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// store opens a store on the outbox's own database.
func (db *database) store(t testing.TB) stet.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), db.DB, sqlstore.Config{Dialect: db.dialect})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pgx opens a store over pgx there.
func (db *database) pgx(t testing.TB) stet.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := pgxstore.Open(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func at(t testing.TB, db *database, s stet.Store) *outbox.Desk {
	t.Helper()
	e, err := stet.New(s, stet.Config{Pepper: []byte("pepper"), StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &outbox.Desk{Box: db.box, DB: db.DB, Engine: e}
}

// desk is the same one for all of the database's test, and for its subtests.
func (db *database) desk(t testing.TB) *outbox.Desk {
	t.Helper()
	db.once.Do(func() { db.settling = at(db.of, db, db.store(db.of)) })
	return db.settling
}

// declined adds a message of a record, and has it declined.
func (db *database) declined(t *testing.T, id stet.ID) int64 {
	t.Helper()
	db.add(t, outbox.Message{Topic: "receipts", Record: outbox.Record{ID: id, Life: time.Unix(1, 0)}, OrderKey: "line"})
	until(t, db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Decline("no") }), 1)
	all := db.list(t)
	return all[len(all)-1].ID
}

// seen is a message as a person sees it now.
func (db *database) seen(t testing.TB, id int64) outbox.Seen {
	t.Helper()
	m, err := db.shows().Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return m.Seen()
}

// Two people see a dead letter, and both have it retried. What the second saw is over, and it is
// delivered again once.
func TestTwoPeopleSettleOneMessage(t *testing.T) { // K06
	on(t, func(t *testing.T, db *database) {
		ctx, d := t.Context(), db.desk(t)
		n := db.declined(t, stet.ID{Scope: "s", Key: "k"})
		ann, bob := db.seen(t, n), db.seen(t, n)
		if err := d.Retry(ctx, ann, "ann", "funds are there"); err != nil {
			t.Fatal(err)
		}
		until(t, db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Maybe(errors.New("cut")) }), 1)
		before := db.list(t)[0] // it is unknown now, and bob saw a dead letter
		for name, settle := range map[string]func(context.Context, outbox.Seen, string, string) error{"retry": d.Retry, "discard": d.Discard, "confirm": d.Confirm} {
			for _, seen := range []outbox.Seen{bob, {ID: n}} {
				if err := settle(ctx, seen, "bob", "funds are there"); !errors.Is(err, stet.ErrStale) {
					t.Errorf("%s of what was seen at %d: %v", name, seen.Version, err)
				}
			}
		}
		after := db.list(t)[0]
		if after.State != outbox.Unknown || after.Version != before.Version || len(after.Errors) != len(before.Errors) {
			t.Errorf("it was changed: %+v", after)
		}
		if got, _, err := d.Engine.Operator().History(ctx, stet.HistoryQuery{}); err != nil || len(got) != 1 {
			t.Errorf("%d entries of one change, %v", len(got), err)
		}
		if err := d.Confirm(ctx, db.seen(t, n), "bob", "the provider has it"); err != nil {
			t.Error(err)
		}
	})
}

// What is done with a message by hand is in the history, with the name of who settled it, and
// outlives the message.
func TestSettlingIsAudited(t *testing.T) { // D02
	on(t, func(t *testing.T, db *database) {
		keys, err := sealstore.ParseKeys([]byte(`{"primary":"k","keys":{"k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},"names":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}`))
		if err != nil {
			t.Fatal(err)
		}
		plain := db.store(t)
		sealed, err := sealstore.New(plain, sealstore.Config{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		stores := map[string]stet.Store{"plain": plain, "sealed": sealed}
		if db.dialect == sqlstore.Postgres { // as a gateway has it
			stores["pgx"] = db.pgx(t)
		}
		for name, s := range stores {
			ctx, d := t.Context(), at(t, db, s)
			id := stet.ID{Scope: stet.Scope(name), Key: "key\xff"}
			n := db.declined(t, id)
			for _, blank := range [][2]string{{"", "why"}, {"ann", ""}, {"ann", " \t\n"}, {" ", "why"}} { // D10
				if err := d.Discard(ctx, db.seen(t, n), blank[0], blank[1]); !errors.Is(err, stet.ErrNoReason) {
					t.Errorf("%s: by %q for %q: %v", name, blank[0], blank[1], err)
				}
			}
			if err := d.Retry(ctx, db.seen(t, n), "ann", "funds are there"); err != nil {
				t.Fatal(err)
			}
			until(t, db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Decline("no") }), 1)
			if err := d.Discard(ctx, db.seen(t, n), "bob", "sent by hand"); err != nil {
				t.Fatal(err)
			}
			if _, err := db.box.Reap(ctx, db.DB, 0, 10); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Show(ctx, n); !errors.Is(err, stet.ErrNotFound) {
				t.Fatalf("%s: the message is still there: %v", name, err)
			}
			about := fmt.Sprintf("message %d of topic receipts", n)
			for _, q := range []stet.HistoryQuery{{ID: id}, {Tag: d.Engine.Tag(id)}, {Scope: id.Scope}} {
				got, _, err := d.Engine.Operator().History(ctx, q)
				if err != nil || len(got) != 2 {
					t.Fatalf("%s: %+v finds %d entries, %v; want 2", name, q, len(got), err)
				}
				for i, want := range []stet.Note{{Who: "bob", Why: "sent by hand", Evidence: about, Action: "outbox-discard"},
					{Who: "ann", Why: "funds are there", Evidence: about, Action: "outbox-retry"}} {
					if c := got[i]; c.Note != want || c.ID != id || c.Tag != d.Engine.Tag(id) || c.From != 0 || c.To != 0 || c.At.IsZero() {
						t.Errorf("%s: entry %d is %+v, want the note %+v", name, i, c, want)
					}
				}
			}
		}
	})
}

// A message is not settled if the audit entry that names the operator cannot be written.
func TestNothingIsSettledWithoutItsEntry(t *testing.T) { // D02
	on(t, func(t *testing.T, db *database) {
		ctx, d := t.Context(), db.desk(t)
		n := db.declined(t, stet.ID{Scope: "s", Key: "k"})
		before, err := d.Show(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, "ALTER TABLE stet_history RENAME TO stet_elsewhere"); err != nil {
			t.Fatal(err)
		}
		for name, settle := range map[string]func(context.Context, outbox.Seen, string, string) error{"retry": d.Retry, "discard": d.Discard, "confirm": d.Confirm} {
			if err := settle(ctx, before.Seen(), "ann", "why"); err == nil || errors.Is(err, stet.ErrState) {
				t.Errorf("%s without a history: %v", name, err)
			}
		}
		after, err := d.Show(ctx, n)
		if err != nil || after.State != before.State || len(after.Errors) != len(before.Errors) || !after.UpdatedAt.Equal(before.UpdatedAt) {
			t.Errorf("the message was changed all the same: %+v, %v", after, err)
		}
		if _, err := db.ExecContext(ctx, "ALTER TABLE stet_elsewhere RENAME TO stet_history"); err != nil {
			t.Fatal(err)
		}
		if err := d.Retry(ctx, db.seen(t, n), "ann", "why"); err != nil {
			t.Error(err)
		}
		if err := d.Retry(ctx, db.seen(t, n), "ann", "why"); !errors.Is(err, stet.ErrState) { // refused: no entry either
			t.Error(err)
		}
		if got, _, err := d.Engine.Operator().History(ctx, stet.HistoryQuery{}); err != nil || len(got) != 1 {
			t.Errorf("%d entries of one change, %v", len(got), err)
		}
	})
}

func TestDeadLettersAreFound(t *testing.T) { // D06
	on(t, func(t *testing.T, db *database) {
		for i := range 3 {
			db.add(t, outbox.Message{Topic: fmt.Sprint(i)})
		}
		until(t, db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			return map[string]outbox.Result{"0": outbox.Decline("no"), "1": outbox.Maybe(errors.New("cut")), "2": outbox.Delivered()}[d.Topic]
		}), 3)
		found, err := db.desk(t).List(t.Context(), outbox.Query{Dead: true})
		if err != nil || len(found) != 2 || found[0].State != outbox.Dead || found[1].State != outbox.Unknown {
			t.Errorf("%d dead letters, %v: %+v", len(found), err, found)
		}
		if found, err = db.desk(t).List(t.Context(), outbox.Query{Dead: true, Topic: "1", After: found[0].ID, Limit: 1}); err != nil || len(found) != 1 {
			t.Errorf("%d dead letters of one topic, %v", len(found), err)
		}
	})
}
