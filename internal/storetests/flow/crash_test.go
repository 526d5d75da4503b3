// Package flow kills processes that run a flow on a real database, at every boundary.
package flow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/store/sqlstore"
)

const lease = 500 * time.Millisecond

// mortal kills its process at its n-th boundary; 0: never.
type mortal struct {
	stet.Store
	at   int64
	step *atomic.Int64
}

func (m mortal) boundary() {
	if m.step.Add(1) == m.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m mortal) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	m.boundary()
	defer m.boundary()
	return m.Store.Create(ctx, r)
}

func (m mortal) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	m.boundary()
	defer m.boundary()
	return m.Store.Replace(ctx, prev, h, b)
}

// Bind keeps the boundaries within transactions.
func (m mortal) Bind(tx any) (stet.Store, error) {
	b, ok := stet.As[stet.Binder](m.Store)
	if !ok {
		return nil, stet.ErrForeignTx
	}
	s, err := b.Bind(tx)
	return mortal{s, m.at, m.step}, err
}

type order struct {
	Amount int
	Charge string
}

// shop is a program on a database, with a provider whose ledger is a file: a line for each effect.
type shop struct {
	dir    string
	db     *sql.DB
	store  *sqlstore.Store
	engine *stet.Engine
	flow   *flow.Flow[order]
}

func (s *shop) ledger() string { return filepath.Join(s.dir, "ledger") }

// charge is a provider that has one effect per key.
func (s *shop) charge(key string) (string, error) {
	have, err := os.ReadFile(s.ledger())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if strings.Contains(string(have), key+"\n") {
		return "ch_" + key, nil
	}
	f, err := os.OpenFile(s.ledger(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintln(f, key)
	return "ch_" + key, errors.Join(err, f.Close())
}

func open(ctx context.Context, dir string, at int64) (*shop, error) {
	s := &shop{dir: dir}
	var err error
	if s.db, err = sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "shop.db"))); err != nil {
		return nil, err
	}
	if err = sqlstore.Migrate(ctx, s.db, sqlstore.SQLite); err != nil {
		return nil, err
	}
	if _, err = s.db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS rows (what TEXT, charge TEXT)"); err != nil {
		return nil, err
	}
	if s.store, err = sqlstore.Open(ctx, s.db, sqlstore.Config{Dialect: sqlstore.SQLite}); err != nil {
		return nil, err
	}
	m := mortal{s.store, at, new(atomic.Int64)}
	policy := stet.Policy{Lease: lease, Execution: stet.Never, Rules: stet.Rules{OnLapse: stet.LapseResume}}
	if s.engine, err = stet.New(m, stet.Config{Policy: policy}); err != nil {
		return nil, err
	}
	write := func(what string) flow.Phase[order] {
		return flow.Local(what, func(ctx context.Context, tx *sql.Tx, o *order) error {
			m.boundary()
			defer m.boundary()
			_, err := tx.ExecContext(ctx, "INSERT INTO rows VALUES (?, ?)", what, o.Charge)
			return err
		})
	}
	s.flow, err = flow.New(flow.Config[order]{Name: "order", Engine: s.engine, DB: s.db, Backoff: time.Millisecond,
		Answer: func(o *order) stet.Response { return stet.Response{Status: 201, Body: []byte(o.Charge)} }},
		write("reserve"),
		flow.Foreign("charge", func(ctx context.Context, call *flow.Call, o *order) error {
			return call.Do(ctx, func(_ context.Context, key string) (err error) {
				m.boundary()
				defer m.boundary()
				o.Charge, err = s.charge(key)
				call.Learned(o.Charge)
				return err
			})
		}).HonoursKey(),
		write("book"))
	return s, err
}

func (s *shop) close() error { return errors.Join(s.store.Close(), s.db.Close()) }

func request() stet.Request { return stet.Request{ID: stet.ID{Scope: "shop", Key: "k"}} }

// A test runs this binary again as the process to kill.
func TestMain(m *testing.M) {
	dir := os.Getenv("STET_FLOW_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	at, _ := strconv.ParseInt(os.Getenv("STET_FLOW_AT"), 10, 64)
	s, err := open(context.Background(), dir, at)
	if err == nil {
		_, err = s.flow.Do(context.Background(), request(), order{Amount: 7})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// killed runs a process that dies at a boundary, and reports false where it came to its end instead.
func killed(t *testing.T, dir string, at int) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STET_FLOW_DIR="+dir, fmt.Sprint("STET_FLOW_AT=", at))
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

func TestKilledAtEveryBoundary(t *testing.T) { // I1, I6, W4, W7, CR-05, CR-14
	points := 0
	for at, died := 1, true; died; at++ {
		dir := t.TempDir()
		died = killed(t, dir, at)
		points = at
		s, err := open(t.Context(), dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.survive(t, at)
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
	if points < 17 {
		t.Errorf("only %d points", points)
	}
	t.Logf("%d points", points)
}

// survive lets a completer, at odd points, or the client finish, and compares what there is.
func (s *shop) survive(t *testing.T, at int) {
	t.Helper()
	if _, err := s.engine.Get(t.Context(), request().ID); err == nil && at%2 == 1 {
		s.complete(t)
	}
	answer := s.retry(t)
	ledger, err := os.ReadFile(s.ledger())
	if err != nil || strings.Count(string(ledger), "\n") != 1 || string(answer.Body) != "ch_"+strings.TrimSpace(string(ledger)) {
		t.Errorf("point %d: the ledger says %q, the client was told %q; %v", at, ledger, answer.Body, err)
	}
	var rows, reserved, booked int
	err = s.db.QueryRowContext(t.Context(), "SELECT count(*), count(*) FILTER (WHERE what = 'reserve' AND charge = ''),"+
		" count(*) FILTER (WHERE what = 'book' AND charge = ?) FROM rows", string(answer.Body)).Scan(&rows, &reserved, &booked)
	if err != nil || rows != 2 || reserved != 1 || booked != 1 {
		t.Errorf("point %d: %d rows, %d reserved, %d booked; %v", at, rows, reserved, booked, err)
	}
}

// complete runs completers on two "hosts" until the record has an answer.
func (s *shop) complete(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() {
			ended <- flow.Completer{Engine: s.engine, Flows: []flow.Resumer{s.flow}, Every: 20 * time.Millisecond}.Run(ctx)
		}()
	}
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		r, err := s.engine.Get(t.Context(), request().ID)
		if err != nil || r.State != stet.Running || ctx.Err() != nil {
			if r.State != stet.Completed {
				t.Errorf("the completers left it %s: %v", r.State, err)
			}
			tick.Stop()
			break
		}
	}
	stop()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// retry is the client, which asks until it has an answer.
func (s *shop) retry(t *testing.T) stet.Response {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := s.flow.Do(ctx, request(), order{Amount: 7})
		var refused *stet.Refused
		switch {
		case err == nil:
			return answer
		case errors.As(err, &refused) && refused.Verdict == stet.InProgress && ctx.Err() == nil:
			<-tick.C
		default:
			t.Fatal(err)
		}
	}
}

func TestLocalPhaseIsTriedAgainAndLeavesNoTrace(t *testing.T) {
	s, err := open(t.Context(), t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	tries := 0
	answer := func(o *order) stet.Response { return stet.Response{Status: 200, Body: []byte(o.Charge)} }
	f, err := flow.New(flow.Config[order]{Name: "f", Engine: s.engine, DB: s.db, Answer: answer},
		flow.Local("write", func(ctx context.Context, tx *sql.Tx, o *order) error {
			tries++
			o.Charge += "x" // of a try that is rolled back nothing may be left
			if _, err := tx.ExecContext(ctx, "INSERT INTO rows VALUES ('try', '')"); err != nil || tries < 3 {
				return errors.Join(err, errors.New("serialization failure"))
			}
			return nil
		}),
		flow.Local("check", func(ctx context.Context, tx *sql.Tx, o *order) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO rows VALUES ('check', '')")
			return errors.Join(err, flow.Decline(stet.Response{Status: 402, Body: []byte(o.Charge)}))
		}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a replay
		if got, err := f.Do(t.Context(), request(), order{}); err != nil || got.Status != 402 || string(got.Body) != "x" {
			t.Fatalf("%d %q, %v", got.Status, got.Body, err)
		}
	}
	var rows int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM rows").Scan(&rows); err != nil || rows != 1 || tries != 3 {
		t.Errorf("%d rows, %d tries; %v", rows, tries, err)
	}
}

func TestLocalPhaseThatPanics(t *testing.T) { // rolled back for certain, so that it goes on later
	s, err := open(t.Context(), t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	broken := true
	f, err := flow.New(flow.Config[order]{Name: "f", Engine: s.engine, DB: s.db, Backoff: time.Millisecond,
		Answer: func(*order) stet.Response { return stet.Response{Status: 200, Body: []byte("ch_")} }},
		flow.Local("write", func(ctx context.Context, tx *sql.Tx, _ *order) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO rows VALUES ('once', '')"); err != nil || !broken {
				return err
			}
			panic("boom")
		}))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not go on")
			}
		}()
		_, _ = f.Do(t.Context(), request(), order{Amount: 7})
	}()
	broken = false
	s.flow = f
	s.retry(t)
	var rows int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM rows").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows; %v", rows, err)
	}
}
