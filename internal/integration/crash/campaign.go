package crash

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
)

// lanes is how many lives there are at a time. Most of them wait for a lease to end.
const lanes = 8

// Harness has databases to crash on, and the provider. It is for one test at a time.
type Harness struct {
	dir    string
	plain  string // the program to kill
	ledger *ledger
	lanes  map[string][]*lane
}

// lane is a database in which one order at a time is under way.
type lane struct {
	kind  Kind
	dsn   string
	db    *sql.DB // the test's own, which has no points
	store *sqlstore.Store
}

// New returns a harness, which ends with the test.
func New(t *testing.T) *Harness {
	t.Helper()
	h := &Harness{dir: t.TempDir(), lanes: map[string][]*lane{}}
	var err error
	if h.plain, err = built(h.dir); err != nil {
		t.Fatal(err)
	}
	h.ledger = newLedger()
	t.Cleanup(func() {
		h.ledger.server.Close()
		for _, all := range h.lanes {
			for _, l := range all {
				if err := errors.Join(l.store.Close(), l.db.Close()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	return h
}

// on returns the lanes of a kind, made when they are first asked for.
func (h *Harness) on(t *testing.T, k Kind) []*lane {
	t.Helper()
	for i := len(h.lanes[k.Name]); i < lanes; i++ {
		l := &lane{kind: k}
		name := fmt.Sprintf("crash_%s_%s_%d", k.Name, strings.ToLower(rand.Text()[:8]), i)
		switch k.Dialect {
		case sqlstore.SQLite:
			l.dsn = sqlstore.SQLiteDSN(filepath.Join(h.dir, name))
		case sqlstore.Postgres:
			s := testserver.Postgres(t)
			create(t, k, s.PostgresDSN("postgres"), name)
			l.dsn = s.PostgresDSN(name)
		case sqlstore.MySQL:
			s := testserver.MariaDB(t)
			create(t, k, s.MariaDBDSN(""), name)
			l.dsn = s.MariaDBDSN(name)
		}
		if err := l.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.lanes[k.Name] = append(h.lanes[k.Name], l)
	}
	return h.lanes[k.Name]
}

func create(t *testing.T, k Kind, dsn, name string) {
	t.Helper()
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+name)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func (l *lane) open(ctx context.Context) (err error) {
	if l.db, err = sql.Open(l.kind.driver, l.dsn); err != nil {
		return err
	}
	if err = sqlstore.Migrate(ctx, l.db, l.kind.Dialect); err != nil {
		return err
	}
	if _, err = l.db.ExecContext(ctx, "CREATE TABLE payments (reference VARCHAR(100), what VARCHAR(20), receipt VARCHAR(100))"); err != nil {
		return err
	}
	l.store, err = sqlstore.Open(ctx, l.db, sqlstore.Config{Dialect: l.kind.Dialect})
	return err
}

// Report is what came of a campaign.
type Report struct {
	Points []string // that the first life came past, to end lives at
	Missed []string // those that the life which was to end there did not come past
	Wrong  []error  // where not all was put right
}

// EveryPoint watches a life of the program, and then ends one at each point it came past. Where one
// thing has ended and the next begins nothing is between, and the two points are one, unless each
// is asked for.
func (h *Harness) EveryPoint(t *testing.T, p Program, k Kind, each bool) (r Report) {
	t.Helper()
	all := h.on(t, k)
	watched := h.trial(p, all[0], life{})
	watched.program = os.Args[0]
	if err := watched.run(t.Context()); err != nil {
		r.Wrong = append(r.Wrong, fmt.Errorf("without a crash: %w", err))
		return r
	}
	r.Points = watched.now.Points()
	if !each {
		r.Points = crashpoint.Apart(r.Points)
	}
	lives := make([]life, len(r.Points))
	for i, at := range r.Points {
		lives[i].At = at
	}
	r.Missed, r.Wrong = h.each(t, p, k, lives, nil)
	return r
}

// Again ends first lives and those that follow them, at points of which the number is drawn.
func (h *Harness) Again(t *testing.T, p Program, k Kind, count int, draw func() int) (r Report) {
	t.Helper()
	lives := make([]life, count)
	for i := range lives {
		lives[i].After = draw()
	}
	_, r.Wrong = h.each(t, p, k, lives, draw)
	return r
}

// each has an order for each of the first lives. What follows on a death dies, too, as often as
// later says, and thrice at most.
func (h *Harness) each(t *testing.T, p Program, k Kind, lives []life, later func() int) (missed []string, wrong []error) {
	var mu sync.Mutex
	var busy sync.WaitGroup
	next := make(chan life)
	for _, l := range h.on(t, k) {
		busy.Go(func() {
			for first := range next {
				trial := h.trial(p, l, first)
				mu.Lock()
				for i := 0; later != nil && i < 3; i++ {
					trial.later = append(trial.later, later())
				}
				mu.Unlock()
				err := trial.run(t.Context())
				mu.Lock()
				if trial.deaths == 0 {
					missed = append(missed, first.At)
				}
				if err != nil {
					wrong = append(wrong, fmt.Errorf("killed at %q %d %v: %w", first.At, first.After, trial.later, err))
				}
				mu.Unlock()
			}
		})
	}
	for _, l := range lives {
		next <- l
	}
	close(next)
	busy.Wait()
	return missed, wrong
}

// patience is for one order, from its first life to the end of all that follows.
const patience = 40 * time.Second

// trial is one order, and the lives that it takes.
type trial struct {
	p      Program
	on     *lane
	ledger *ledger
	order  string

	program string // that lives run

	next   life // to be started
	later  []int
	now    *crashpoint.Process
	deaths int
}

func (h *Harness) trial(p Program, l *lane, first life) *trial {
	first.Program, first.Kind, first.DSN, first.Provider = p.Name, l.kind.Name, l.dsn, h.ledger.server.URL
	return &trial{p: p, on: l, ledger: h.ledger, order: "order-" + rand.Text(), program: h.plain, next: first}
}

// until takes a step again and again, until it is done. Where the process has died meanwhile, it is
// started again before.
func (t *trial) until(ctx context.Context, what string, step func() (bool, error)) error {
	tick := time.NewTicker(shortLease / 20)
	defer tick.Stop()
	for {
		if err := t.alive(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		done, err := step()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w\n%w", what, patience, err, t.now.Stacks())
		case <-tick.C:
		}
	}
}

// alive starts the process, where there is none.
func (t *trial) alive(ctx context.Context) (err error) {
	if t.now != nil {
		dead, err := t.now.Died()
		if err != nil || !dead {
			return err
		}
		t.deaths++
		t.next.At, t.next.After, t.next.Resumed = "", 0, true
		if len(t.later) >= t.deaths {
			t.next.After = t.later[t.deaths-1]
		}
	}
	t.now, err = t.next.start(ctx, t.program)
	return err
}

func (t *trial) run(ctx context.Context) (err error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	defer func() {
		if t.now != nil {
			t.now.Kill()
		}
	}()
	first, err := t.answered(ctx)
	if err != nil {
		return err
	}
	if t.p.Settled != nil {
		err = t.until(ctx, "what goes on after the answer", func() (bool, error) { return t.p.Settled(ctx, t.on.db, t.on.kind.Dialect) })
		if err != nil {
			return err
		}
	}
	again, err := t.answered(ctx)
	if err != nil {
		return err
	}
	if again.Body != first.Body || !again.Replayed {
		return fmt.Errorf("the client was told %q, and then %q, replayed %v", first.Body, again.Body, again.Replayed)
	}
	if dead, err := t.now.End(ctx); err != nil || dead { // on its way out nothing is left to be done
		return err
	}
	return t.check(ctx, first.Body)
}

// answered asks until there is a final answer.
func (t *trial) answered(ctx context.Context) (a crashpoint.Reply, err error) {
	known := t.deaths
	err = t.until(ctx, "the client's answer", func() (bool, error) {
		if t.p.Patient && t.deaths > known {
			if done, err := t.abandoned(ctx); !done {
				return false, err
			}
		}
		got, err := t.ask(ctx)
		if err == nil {
			a = got
		}
		return err == nil && a.Status == http.StatusCreated, err
	})
	if err != nil {
		r, failed := t.record(context.WithoutCancel(ctx))
		err = fmt.Errorf("%w\nthe last answer was %d %s\nthe record is %s, %q: %v", err, a.Status, a.Body, r.State, r.Cause, failed)
	}
	return a, err
}

// ask is one request of the client's. One that is not answered leaves time for others.
func (t *trial) ask(ctx context.Context) (crashpoint.Reply, error) {
	ctx, stop := context.WithTimeout(ctx, patience/2)
	defer stop()
	return crashpoint.Post(ctx, t.now.URL+"/orders", t.order, "application/json", `{"amount":1999}`)
}

func (t *trial) record(ctx context.Context) (stet.Record, error) {
	return t.on.store.Get(ctx, stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(t.order)})
}

// abandoned reports whether the order has been completed without its client; or never begun.
func (t *trial) abandoned(ctx context.Context) (bool, error) {
	switch r, err := t.record(ctx); {
	case errors.Is(err, stet.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case r.State != stet.Completed:
		return false, fmt.Errorf("it is %s, and nobody completes it", r.State)
	}
	return true, nil
}

func (t *trial) check(ctx context.Context, answer string) error {
	r, err := t.record(ctx)
	if err != nil || r.State != stet.Completed {
		return fmt.Errorf("the record is %s: %w", r.State, err)
	}
	return t.p.Check(ctx, Outcome{t.order, answer, t.ledger.of(t.order), t.on.db, t.on.kind.Dialect})
}
