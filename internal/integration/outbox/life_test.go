package outbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A05: a key that is used again after its retention has its effect again, while the message of its
// first life is still kept.
func TestSecondLife(t *testing.T) {
	var lives []outbox.Record
	synctest.Test(t, func(t *testing.T) {
		policy := stet.Policy{Rules: stet.Rules{Retain: time.Hour}}
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			d, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "again-0123456789"}})
			if err != nil || d.Claim == nil {
				t.Fatal(d.Verdict, err)
			}
			lives = append(lives, outbox.RecordOf(d.Claim), outbox.RecordOf(d.Claim))
			if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
		}
	})
	on(t, func(t *testing.T, db *database) {
		for i, record := range lives {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var want error
			if i%2 == 1 { // an execution of the same life that runs again
				want = stet.ErrExists
			}
			if err := db.box.Add(t.Context(), tx, outbox.Message{Topic: "charge", Record: record}); !errors.Is(err, want) {
				t.Errorf("use %d of the key: %v instead of %v", i, err, want)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		until(t, db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() }), 2)
		for i, m := range db.list(t) {
			if m.State != outbox.Done || m.Record != lives[2*i] {
				t.Errorf("life %d: %s, of %s", i, m.State, m.Record.Life)
			}
		}
	})
}

// A05: a record without its life is no message, or the life would be forgotten where it matters.
func TestRecordNeedsItsLife(t *testing.T) {
	box := outbox.New(sqlstore.SQLite)
	for name, r := range map[string]outbox.Record{
		"no life": {ID: stet.ID{Scope: "s", Key: "k"}},
		"no ID":   {Life: time.Now()},
	} {
		m := outbox.Message{Topic: "t", Record: r, DownstreamKey: "d"}
		if err := box.Add(t.Context(), nil, m); !errors.Is(err, outbox.ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := outbox.RecordOf(nil); r != (outbox.Record{}) {
		t.Errorf("of no claim: %v", r)
	}
}
