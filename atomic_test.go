package stet_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

var errLostCommit = errors.New("the connection broke during COMMIT")

// ledger is a fakeStore that joins transactions: what is written in one is applied by commit, all
// of it or nothing.
type ledger struct{ *fakeStore }

type ledgerTx struct {
	*fakeStore // as the transaction sees it
	outer      *fakeStore
	began      map[stet.ID]stet.Version
}

func (l ledger) begin() *ledgerTx {
	tx := &ledgerTx{fakeStore: &fakeStore{skew: l.skew, calls: map[string]int{}, records: map[stet.ID]stet.Record{}}, outer: l.fakeStore, began: map[stet.ID]stet.Version{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.records {
		tx.records[id], tx.began[id] = r, r.Version
	}
	return tx
}

// commit fails, with nothing applied, where a record was changed outside meanwhile.
func (tx *ledgerTx) commit() error {
	tx.outer.mu.Lock()
	defer tx.outer.mu.Unlock()
	for id, r := range tx.records {
		if r.Version != tx.began[id] && tx.outer.records[id].Version != tx.began[id] {
			return errors.New("serialization failure")
		}
	}
	if tx.outer.records == nil {
		tx.outer.calls, tx.outer.records = map[string]int{}, map[stet.ID]stet.Record{}
	}
	for id, r := range tx.records {
		if r.Version != tx.began[id] {
			tx.outer.records[id] = r
		}
	}
	return nil
}

func (l ledger) Bind(tx any) (stet.Store, error) {
	switch tx := tx.(type) {
	case *ledgerTx:
		return tx, nil
	case wrappedTx:
		return tx.ledgerTx, nil
	}
	return nil, stet.ErrForeignTx
}

// wrappedTx cannot be compared.
type wrappedTx struct {
	*ledgerTx
	notes []string
}

func ledgered(t *testing.T, run func(t *testing.T, l ledger, e *stet.Engine, told func() int)) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, _ *stet.Engine) {
		var ended int
		e, err := stet.New(ledger{s}, stet.Config{Policy: stet.Policy{Execution: stet.Never}, Observe: func(ev stet.Event) {
			if ev.Kind == stet.Transition && ev.To != stet.Running {
				ended++
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, ledger{s}, e, func() int { return ended })
	})
}

func TestSettledInATransaction(t *testing.T) { // I6, W4
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, told func() int) {
		c := must(t, e, request("k"), stet.Execute).Claim
		held := c.Hold(t.Context(), nil)
		tx := l.begin()
		if err := errors.Join(c.In(tx), c.Settle(t.Context(), result("ok"))); err != nil {
			t.Fatal(err)
		}
		must(t, e, request("k"), stet.InProgress)
		if told() != 0 || held.Err() != nil {
			t.Error("somebody was told before the commit")
		}
		if err := c.Confirm(t.Context(), tx.commit()); err != nil || told() != 1 || held.Err() == nil {
			t.Errorf("Confirm: %v, told %d times, held %v", err, told(), held.Err())
		}
		if d := must(t, e, request("k"), stet.Replay); string(d.Record.Response.Body) != "ok" {
			t.Errorf("%q", d.Record.Response.Body)
		}
		if err := c.Settle(t.Context(), result("again")); !errors.Is(err, stet.ErrFenced) {
			t.Errorf("settled twice: %v", err)
		}
	})
}

func TestRollbackIsProvenByOneWrite(t *testing.T) { // W7: the record says retryable only where nothing can follow any more
	for name, settled := range map[string]bool{"after Settle": true, "before Settle": false} {
		t.Run(name, func(t *testing.T) {
			ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, told func() int) {
				c := must(t, e, request("k"), stet.Execute).Claim
				tx := l.begin()
				if err := c.In(tx); err != nil {
					t.Fatal(err)
				}
				if settled {
					_ = c.Settle(t.Context(), result("ok"))
				}
				if err := c.Confirm(t.Context(), context.Canceled); !errors.Is(err, stet.ErrRolledBack) || !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if tx.commit() == nil && settled {
					t.Error("what was called rolled back could still be committed")
				}
				must(t, e, request("k"), stet.InProgress) // it is still held
				c.NotExecuted(stet.CauseRolledBack)
				if err := c.Settle(t.Context(), stet.Outcome{}); err != nil || told() != 1 {
					t.Errorf("%v, told %d times", err, told())
				}
				if d := must(t, e, request("k"), stet.Execute); d.Claim.Attempt() != 2 {
					t.Errorf("attempt %d", d.Claim.Attempt())
				}
			})
		})
	}
}

func TestCommitWithoutAnAnswer(t *testing.T) { // W7
	for name, landed := range map[string]bool{"it happened": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
				c := must(t, e, request("k"), stet.Execute).Claim
				tx := l.begin()
				if err := errors.Join(c.In(tx), c.Settle(t.Context(), result("ok"))); err != nil {
					t.Fatal(err)
				}
				if landed {
					_ = tx.commit()
				}
				err := c.Confirm(t.Context(), errLostCommit)
				if landed && err != nil || !landed && !errors.Is(err, stet.ErrRolledBack) {
					t.Fatal(err)
				}
				must(t, e, request("k"), map[bool]stet.Verdict{true: stet.Replay, false: stet.InProgress}[landed])
			})
		})
	}
}

func TestStoreThatDoesNotTellHowACommitEnded(t *testing.T) { // ... leaves it open: nothing runs again
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		c := must(t, e, request("k"), stet.Execute).Claim
		tx := l.begin()
		if err := errors.Join(c.In(tx), c.Settle(t.Context(), result("ok"))); err != nil {
			t.Fatal(err)
		}
		l.before = func(string, int) error { return errLost }
		if err := c.Confirm(t.Context(), errLostCommit); !errors.Is(err, stet.ErrUnsettled) || !errors.Is(err, errLostCommit) {
			t.Fatal(err)
		}
		l.before = nil
		after(stet.DefaultLease)
		must(t, e, request("k"), stet.Unresolved)
	})
}

func TestRecoveryPointInATransaction(t *testing.T) {
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		c := must(t, e, request("k"), stet.Execute).Claim
		held := c.Hold(t.Context(), nil)
		tx := l.begin()
		if err := errors.Join(c.In(tx), c.Step(t.Context(), stet.Step{Point: "charged", Progress: []byte("ch_1")})); err != nil {
			t.Fatal(err)
		}
		after(stet.DefaultLease / 2) // no heartbeat comes between
		if err := c.Confirm(t.Context(), tx.commit()); err != nil {
			t.Fatal(err)
		}
		after(3 * stet.DefaultLease / 4) // ... and then they come again
		if held.Err() != nil {
			t.Fatalf("the claim was lost: %v", context.Cause(held))
		}
		if r, _ := e.Get(t.Context(), c.ID()); r.Point != "charged" || string(r.Progress) != "ch_1" || r.Over() {
			t.Errorf("%q, %q", r.Point, r.Progress)
		}
		tx = l.begin()
		if err := errors.Join(c.In(tx), c.Step(t.Context(), stet.Step{Point: "booked", Progress: []byte("2")})); err != nil {
			t.Fatal(err)
		}
		if err := c.Confirm(t.Context(), errLostCommit); !errors.Is(err, stet.ErrRolledBack) || c.Head().Point != "charged" {
			t.Fatalf("%v, at %q", err, c.Head().Point)
		}
		if err := c.Settle(t.Context(), result("ok")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTransactionLongerThanTheLease(t *testing.T) { // I3: the first write decides
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		c := must(t, e, request("k"), stet.Execute).Claim
		if err := c.In(l.begin()); err != nil {
			t.Fatal(err)
		}
		after(stet.DefaultLease)
		if n, _, err := e.Operator().Sweep(t.Context(), "", 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := c.Confirm(t.Context(), errLostCommit); !errors.Is(err, stet.ErrFenced) {
			t.Fatal(err)
		}
		must(t, e, request("k"), stet.Unresolved)
	})
}

func TestReservedInATransaction(t *testing.T) {
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		for i, commit := range []bool{false, true} {
			tx := l.begin()
			d, err := e.BeginIn(t.Context(), tx, request("k"))
			if err != nil || d.Verdict != stet.Execute {
				t.Fatal(d.Verdict, err)
			}
			if _, there := l.read(d.Claim.ID()); there && i == 0 {
				t.Error("the reservation is seen before the commit")
			}
			if err := d.Claim.Settle(t.Context(), result("ok")); err != nil {
				t.Fatal(err)
			}
			if commit {
				if err := d.Claim.Confirm(t.Context(), tx.commit()); err != nil {
					t.Fatal(err)
				}
				break
			}
			if err := d.Claim.Confirm(t.Context(), errLostCommit); !errors.Is(err, stet.ErrRolledBack) {
				t.Fatal(i, err)
			}
			d.Claim.NotExecuted(stet.CauseRolledBack)
			if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
				t.Fatal(err)
			}
		}
		must(t, e, request("k"), stet.Replay)
	})
}

func TestTransactionsThatCannotBeJoined(t *testing.T) {
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		c := must(t, e, request("k"), stet.Execute).Claim
		if err := c.In(7); !errors.Is(err, stet.ErrForeignTx) {
			t.Errorf("of another kind: %v", err)
		}
		wrapped := wrappedTx{l.begin(), nil}
		for name, bind := range map[string]func(any) error{"Bind": c.Bind, "In": c.In} {
			if err := bind(wrapped); !errors.Is(err, stet.ErrForeignTx) || !strings.Contains(err.Error(), "use a pointer") {
				t.Errorf("%s of what cannot be compared: %v", name, err)
			}
		}
		if err := c.Confirm(t.Context(), nil); err == nil {
			t.Error("confirmed without In")
		}
		if err := c.In(l.begin()); err != nil {
			t.Fatal(err)
		}
		if err := c.In(l.begin()); err == nil {
			t.Error("in two at a time")
		}
	})
	shelved(t, stet.Config{}, func(t *testing.T, _ *fakeStore, e *stet.Engine) {
		if err := must(t, e, request("k"), stet.Execute).Claim.In(7); !errors.Is(err, stet.ErrForeignTx) {
			t.Errorf("a store without the ability: %v", err)
		}
		if _, err := e.BeginIn(t.Context(), 7, request("k2")); !errors.Is(err, stet.ErrForeignTx) {
			t.Errorf("a store without the ability: %v", err)
		}
	})
}

// A run that does all its work in one transaction, and crashed: the write that takes its record
// over proves that nothing of it was committed, and keeps it from being committed later.
func TestACrashedAtomicRunIsFreedByProof(t *testing.T) { // A06, I1, I14, W4
	for name, free := range map[string]func(t *testing.T, e *stet.Engine) *stet.Claim{
		"by a retry": func(t *testing.T, e *stet.Engine) *stet.Claim { return must(t, e, request("k"), stet.Execute).Claim },
		"by the sweeper": func(t *testing.T, e *stet.Engine) *stet.Claim {
			if n, _, err := e.Operator().Sweep(t.Context(), "", 0); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
				q := request("k")
				q.Policy = &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseAtomic}, Execution: stet.Never}
				c := must(t, e, q, stet.Execute).Claim
				tx := l.begin()
				if err := errors.Join(c.In(tx), c.Settle(t.Context(), result("paid"))); err != nil {
					t.Fatal(err)
				}
				must(t, e, q, stet.InProgress)
				after(stet.DefaultLease) // the process hangs, with its transaction open
				second := free(t, e)
				if err := tx.commit(); err == nil {
					t.Fatal("the first run's transaction was committed")
				}
				if err := c.Confirm(t.Context(), errLostCommit); !errors.Is(err, stet.ErrFenced) {
					t.Errorf("Confirm: %v", err)
				}
				if second == nil {
					if r, _ := l.read(q.ID); r.State != stet.Retryable || r.Cause != stet.CauseRolledBack {
						t.Errorf("it is %v, %q", r.State, r.Cause)
					}
					second = must(t, e, q, stet.Execute).Claim
				}
				if err := second.Settle(t.Context(), result("ok")); err != nil || second.Attempt() != 2 {
					t.Error(second.Attempt(), err)
				}
			})
		})
	}
}

func TestACommittedAtomicRunStands(t *testing.T) { // A06: its process crashed right after the commit
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		q := request("k")
		q.Policy = &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseAtomic}, Execution: stet.Never}
		c := must(t, e, q, stet.Execute).Claim
		tx := l.begin()
		if err := errors.Join(c.In(tx), c.Settle(t.Context(), result("paid")), tx.commit()); err != nil {
			t.Fatal(err)
		}
		after(stet.DefaultLease)
		_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
		must(t, e, q, stet.Replay)
	})
}
