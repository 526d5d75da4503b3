package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/sqlstore"
)

// late is one way in which an answer comes late.
type late struct {
	cause  string // what happens to the process
	away   bool   // the store is, when the answer comes
	before bool   // the answer comes before what happens
}

const timeout, leaseLost, stopped, frozen = "timeout", "lease lost", "process stopped", "SIGSTOP"

func (c late) String() string {
	where, when := "there", "after"
	if c.away {
		where = "away"
	}
	if c.before {
		when = "before"
	}
	return fmt.Sprintf("%s, the store %s, the answer %s", c.cause, where, when)
}

// I2, I3, K02, K03, R08, W4 to W8, W32: whatever happens to a process while its handler works, the
// first answer that any client got is what every retry gets, or the outcome is unknown and the
// answer is kept with the record.
func TestLateAnswers(t *testing.T) {
	h, rounds := New(t), 1
	if os.Getenv("STET_SOAK") != "" {
		rounds = 20
	}
	for _, k := range []Kind{SQLite, Postgres} {
		t.Run(k.Name, func(t *testing.T) {
			if k != SQLite {
				tier.Campaign(t, "processes are killed over SQLite in the gate")
			}
			began, next := time.Now(), make(chan late)
			var busy sync.WaitGroup
			for _, l := range h.on(t, k) {
				busy.Go(func() {
					for c := range next {
						if err := h.lateAnswer(t, l, c); err != nil {
							t.Errorf("%s: %v", c, err)
						}
					}
				})
			}
			for range rounds {
				for _, cause := range []string{timeout, leaseLost, stopped, frozen} {
					for i := range 4 {
						next <- late{cause, i%2 == 0, i/2 == 0}
					}
				}
			}
			close(next)
			busy.Wait()
			t.Logf("%d trials in %s", 16*rounds, time.Since(began).Truncate(time.Millisecond))
		})
	}
}

// lateTrial is one order, its process, and another one that its retries come to.
type lateTrial struct {
	*trial
	line  storeLine
	cut   bool                  // ... and is
	away  bool                  // ... and was when the answer came
	left  bool                  // it was asked to end
	first chan crashpoint.Reply // what the client hears; Status 0: its connection broke
	heard *crashpoint.Reply
	open  func() // lets the handler have its answer
	other *crashpoint.Process
}

func (h *Harness) lateAnswer(t *testing.T, l *lane, c late) (err error) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	program := lateAnswers[0]
	if c.cause == timeout {
		program = lateAnswers[1]
	}
	x := &lateTrial{trial: h.trial(program, l, life{}), line: l.line(t), away: c.away, first: make(chan crashpoint.Reply, 1)}
	x.open = h.ledger.hold(x.order)
	defer x.open()
	if x.other, err = x.next.start(ctx, x.program); err != nil {
		return err
	}
	defer x.other.Kill()
	x.next.DSN = x.line.dsn
	if x.now, err = x.next.start(ctx, x.program); err != nil {
		return err
	}
	defer x.now.Kill()
	go func() {
		r, _ := x.ask(ctx)
		x.first <- r
	}()
	err = x.poll(ctx, "the effect", func() bool { return len(x.ledger.of(x.order)) > 0 })
	for _, step := range x.steps(c) {
		if err == nil {
			err = step(ctx)
		}
	}
	return errors.Join(err, x.mend(ctx), x.judge(ctx))
}

// steps are how the answer comes late.
func (x *lateTrial) steps(c late) []func(context.Context) error {
	type steps = []func(context.Context) error
	cut := func(context.Context) error { return nil }
	if c.away {
		cut = x.leaveStore
	}
	answer := func(context.Context) error { x.open(); return nil }
	leave := func(context.Context) error { x.left = true; x.now.Leave(); return nil }
	freeze := x.freeze
	thaw := func(context.Context) error { return x.now.Signal(syscall.SIGCONT) }
	switch c.cause {
	case timeout:
		if c.before {
			return steps{cut, answer, x.hear, x.lapse}
		}
		return steps{cut, x.hear, answer}
	case leaseLost:
		switch {
		case c.before:
			return steps{cut, answer, x.hear, x.lapse, x.retry}
		case c.away:
			return steps{x.leaveStore, x.hear, x.lapse, x.retry, answer}
		}
		return steps{x.leaveStore, x.hear, x.lapse, x.mend, x.retry, answer}
	case stopped:
		if c.before {
			return steps{cut, answer, x.hear, leave, x.retry}
		}
		return steps{cut, leave, x.hear, x.retry, answer}
	}
	if c.before { // the answer is in the socket when the process goes on
		return steps{freeze, answer, x.lapse, x.retry, cut, thaw, x.hear}
	}
	return steps{freeze, x.lapse, x.retry, cut, thaw, x.hear, answer}
}

// freeze stops the process, and not within a write to a store that has one writer at a time: that
// would keep all others from it.
func (x *lateTrial) freeze(ctx context.Context) (err error) {
	if x.line.all {
		if err := x.line.cut(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.line.mend(ctx)) }()
	}
	if err := x.now.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return x.poll(ctx, "the process stands still", x.now.Stopped)
}

// leaveStore cuts the process off from its store.
func (x *lateTrial) leaveStore(ctx context.Context) error {
	x.cut = true
	return x.line.cut(ctx)
}

func (x *lateTrial) mend(ctx context.Context) error {
	if !x.cut {
		return nil
	}
	x.cut = false
	return x.line.mend(ctx)
}

// hear waits until the client has its answer, or its connection has broken.
func (x *lateTrial) hear(ctx context.Context) error {
	if x.heard != nil {
		return nil
	}
	select {
	case r := <-x.first:
		x.heard = &r
		return x.same(&r)
	case <-ctx.Done():
		return fmt.Errorf("the client hears nothing: %w", x.now.Stacks())
	}
}

// lapse waits until the record has no holder whose lease goes on.
func (x *lateTrial) lapse(ctx context.Context) error {
	return x.poll(ctx, "the end of the lease", func() bool {
		r, err := x.record(ctx)
		return err == nil && (r.State != stet.Running || r.Over())
	})
}

// retry is a client that asks another process meanwhile.
func (x *lateTrial) retry(ctx context.Context) error {
	got, err := crashpoint.Post(ctx, x.other.URL+"/orders", x.order, "application/json", `{"amount":1999}`)
	if err != nil {
		return err
	}
	return x.same(&got)
}

// same looks at what a client hears: an answer is the one that the first client got.
func (x *lateTrial) same(got *crashpoint.Reply) error {
	if made := x.ledger.of(x.order); got.Status == http.StatusCreated && (len(made) != 1 || got.Body != made[0].ID) {
		return fmt.Errorf("a client was told %q of %v", got.Body, made)
	}
	return nil
}

func (x *lateTrial) poll(ctx context.Context, what string, is func() bool) error {
	tick := time.NewTicker(lateLease / 50)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, patience, x.now.Stacks())
		case <-tick.C:
		}
	}
	return nil
}

// judge has the process end, and looks at what is left.
func (x *lateTrial) judge(ctx context.Context) error {
	x.open()
	err := x.hear(ctx)
	if err == nil && !x.left { // a process that ends does not wait for long
		err = x.poll(ctx, "the answer in the record", func() bool {
			r, err := x.record(ctx)
			return err == nil && r.Response != nil
		})
	}
	_, failed := x.now.End(ctx)
	if err = errors.Join(err, failed); err == nil {
		err = x.retry(ctx)
	}
	made := x.ledger.of(x.order)
	r, failed := x.record(ctx)
	switch {
	case err != nil || failed != nil:
		return errors.Join(err, failed)
	case len(made) != 1:
		return fmt.Errorf("there are %d effects", len(made))
	case x.left && x.away && r.State == stet.Unknown && r.Response == nil && slices.Contains(x.now.Points(), toldNotKept):
		return nil // it ended before its store was back, and said what it could not keep
	case r.Response == nil || string(r.Response.Body) != made[0].ID || r.State != stet.Completed && r.State != stet.Unknown:
		return fmt.Errorf("the client was told %d %q, and the record is %s, %q, with %+v; %q",
			x.heard.Status, x.heard.Body, r.State, r.Cause, r.Response, x.now.Points())
	case x.heard.Status == http.StatusCreated && r.State == stet.Unknown && r.Late().IsZero():
		return errors.New("the client has the answer, and the record does not say so")
	}
	return nil
}

// storeLine is the way of a process to its store, which can be cut.
type storeLine struct {
	dsn       string
	cut, mend func(ctx context.Context) error
	all       bool // whom it is cut for
}

// line makes a way to the lane's database. That of SQLite is cut for all, by a transaction that no
// writer gets past.
func (l *lane) line(t *testing.T) storeLine {
	if l.kind.Dialect == sqlstore.SQLite {
		var mend func(ctx context.Context) error
		return storeLine{dsn: l.dsn, all: true, cut: func(ctx context.Context) error {
			conn, err := l.db.Conn(ctx)
			if err != nil {
				return err
			}
			mend = func(ctx context.Context) error {
				_, err := conn.ExecContext(ctx, "ROLLBACK")
				return errors.Join(err, conn.Close())
			}
			_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
			return err
		}, mend: func(ctx context.Context) error { return mend(ctx) }}
	}
	s := testserver.Postgres(t)
	p := badnet.New(t, s.Addr)
	return storeLine{dsn: strings.Replace(l.dsn, s.Addr, p.Addr(), 1),
		cut:  func(context.Context) error { p.Refuse(true); p.Cut(); return nil },
		mend: func(context.Context) error { p.Refuse(false); return nil }}
}
