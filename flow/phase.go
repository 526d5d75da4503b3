package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
)

// Phase is one step of a [Flow], made by [Local] or [Foreign]. Its methods return a changed copy.
type Phase[S any] struct {
	name    string
	was     []string
	local   func(ctx context.Context, tx any, s *S) error
	takes   func(tx any) bool // of a local phase
	foreign func(ctx context.Context, call *Call, s *S) error
	lookup  func(ctx context.Context, key string, s *S) (found bool, err error)
	settle  time.Duration
	settles bool // settle was given
	honours bool
}

// Local is a phase that does its work in tx and nowhere else. The recovery point and what do made of the state are committed with
// it, all or nothing. After any error the transaction is rolled back, and do may be called again with the state as it was before:
// up to [LocalTries] times in one run (serialization failures, deadlocks), and later once more. [Decline], [RetryLater] and
// [Unknown] end the tries. do must not commit tx, keep it, or call anybody over the network.
//
// T is [*database/sql.Tx] for a flow with a DB, and for one with a Begin what its transactions are, such as pgx.Tx.
func Local[S, T any](name string, do func(ctx context.Context, tx T, s *S) error) Phase[S] {
	return Phase[S]{name: name,
		takes: func(tx any) bool { _, ok := tx.(T); return ok },
		local: func(ctx context.Context, tx any, s *S) error {
			t, ok := tx.(T)
			if !ok {
				return fmt.Errorf("%w: the phase takes another than %T", stet.ErrForeignTx, tx)
			}
			return do(ctx, t, s)
		}}
}

// Foreign is a phase with one effect on another system, made through its [Call], outside any transaction. What do learned in s is
// committed before the next phase begins. An error of do that is neither [Decline], [RetryLater] nor [Unknown] means RetryLater
// where the call was not made yet, and Unknown where it was.
func Foreign[S any](name string, do func(ctx context.Context, call *Call, s *S) error) Phase[S] {
	return Phase[S]{name: name, foreign: do}
}

// Was names the phase as earlier releases did, so that runs which they left at it go on here. The key sent downstream is made from
// the name that the record holds: a run that began under the old name repeats the old key.
func (p Phase[S]) Was(names ...string) Phase[S] {
	p.was = append(p.was[:len(p.was):len(p.was)], names...)
	return p
}

// HonoursKey says that the other system has one effect per key, for at least as long as a run can be resumed. Where nobody can
// tell whether the call was made, it is then made again with the same key, instead of leaving the outcome unknown. Say this
// only of a provider that documents it.
func (p Phase[S]) HonoursKey() Phase[S] {
	p.honours = true
	return p
}

// Lookup asks the other system whether the call with key was made, where nobody here can tell: found ends the phase, with what
// find put into s; not found, for as long as [Phase.Settle] says, makes the call. An error leaves the outcome unknown. A run
// asks that goes on after a crash, and [Flow.Reconcile] does after [Unknown].
func (p Phase[S]) Lookup(find func(ctx context.Context, key string, s *S) (found bool, err error)) Phase[S] {
	p.lookup = find
	return p
}

// Settle is for how long nobody has to have worked on the record before it is a proof that a Lookup finds nothing: a call that
// was made may still be on its way (I14). It is longer than a call can take to arrive. Until then a run that goes on after a
// crash is suspended, and [Flow.Reconcile] says [ErrFresh]. A run that took over counts from there. Default [DefaultSettle];
// 0 is for systems that refuse a call after they said that they have none; with [stet.Never] not found is never a proof.
func (p Phase[S]) Settle(d time.Duration) Phase[S] {
	p.settle, p.settles = d, true
	return p
}

// proves reports whether "not found" is a proof once nobody has worked on the record for so long.
func (p *Phase[S]) proves(idle time.Duration) bool {
	return p.settling() != stet.Never && idle >= p.settling()
}

func (p *Phase[S]) settling() time.Duration {
	if p.settles {
		return p.settle
	}
	return DefaultSettle
}

// Call is the one effect that a foreign phase may have. It is for one goroutine.
type Call struct {
	key     string
	id      string
	used    bool
	misused bool
}

// ErrSecondEffect: a phase used its Call twice. One phase has one effect: make it two phases.
var ErrSecondEffect = errors.New("flow: a phase may have one effect, and this one began a second")

// Key is the idempotency key to send. It stays the same for all runs of this phase for this record, and differs between phases,
// and between the lives of a record.
func (c *Call) Key() string { return c.key }

// Do makes the effect: send does what cannot be taken back, with key. It is called at most once per run, and not at all where ctx
// has ended. The error is send's, or says that send was not called.
func (c *Call) Do(ctx context.Context, send func(ctx context.Context, key string) error) error {
	if c.used {
		c.misused = true
		return ErrSecondEffect
	}
	if ctx.Err() != nil {
		return RetryLater(context.Cause(ctx))
	}
	c.used = true
	return send(ctx, c.key)
}

// Learned notes the id by which the other system knows the effect. It is stored with the phase, so that a notice that knows only
// the id finds the record: see [stet.Finder].
func (c *Call) Learned(id string) { c.id = id }

type declined struct{ response stet.Response }

func (d *declined) Error() string {
	return fmt.Sprintf("flow: declined, answered with %d", d.response.Status)
}

// Decline is returned by a phase that got a final no (a declined card): the flow ends here, and r is its answer, which is stored
// and replayed. A local phase is rolled back. Phases before it stay committed: where they need undoing, note the no in the state
// instead and let later phases act on it.
func Decline(r stet.Response) error { return &declined{r} }

type later struct{ err error }

func (l *later) Error() string { return "flow: not done: " + l.err.Error() }
func (l *later) Unwrap() error { return l.err }

// RetryLater is returned by a phase that provably had no effect (the connection was refused): the flow is suspended, and goes on
// at this phase with a later request or a [Completer].
func RetryLater(err error) error { return &later{err} }

type unsure struct{ err error }

func (u *unsure) Error() string { return "flow: it may have happened: " + u.err.Error() }
func (u *unsure) Unwrap() error { return u.err }

// Unknown is returned by a phase that cannot tell whether it had its effect (a timeout, a lost answer): see [Phase.HonoursKey] for
// what follows.
func Unknown(err error) error { return &unsure{err} }
