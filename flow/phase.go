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

// Local returns a phase that works in a database transaction and nowhere else. Its rows, the state
// as do left it, and the next recovery point are committed together, or none of them is. After an
// error the transaction is rolled back, and do may be called again with the state as it was before:
// up to four times in one run, for serialization failures and deadlocks, and again in a later run.
// [Decline], [RetryLater] and [Maybe] end the tries. do must not commit tx, keep it, or call
// another system.
//
// After a deadlock (MySQL, error 1213) and when a disk is full (SQLite), the database has undone the
// transaction, and each statement sent to tx after that happens by itself. do returns that error at
// once, as it is or wrapped, and is believed. Otherwise the run is unknown ([stet.ErrTxEnded]).
//
// T is [*database/sql.Tx] for a flow with a DB. For a flow with a Begin it is the type of its
// transactions, such as pgx.Tx.
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

// Foreign returns a phase with one effect on another system, which it has through its [Call],
// outside any transaction. What do stores in s is committed before the next phase begins. If do
// returns an error that is none of [Decline], [RetryLater] and [Maybe], that means Maybe if do has
// seen the call's key, through [Call.Do] or [Call.Key], and RetryLater otherwise.
func Foreign[S any](name string, do func(ctx context.Context, call *Call, s *S) error) Phase[S] {
	return Phase[S]{name: name, foreign: do, settle: defaultSettle}
}

// Was says which names the phase had in earlier releases, so that runs which were left at it go on
// here. The key sent downstream is made from the name that the record holds, so that a run that
// began under the old name repeats the old key.
func (p Phase[S]) Was(names ...string) Phase[S] {
	p.was = append(p.was[:len(p.was):len(p.was)], names...)
	return p
}

// HonoursKey says that the other system has one effect per key, for at least as long as a run can
// be resumed. If it is not known whether the call was made, it is then made again with the same
// key, instead of leaving the outcome unknown. Say this only of a provider that documents it.
func (p Phase[S]) HonoursKey() Phase[S] {
	p.honours = true
	return p
}

// Lookup says how to ask the other system whether the call with a key was made. A run that goes on
// after a crash asks, and so does [Flow.Reconcile] after [Maybe]. If find reports true the phase is
// over, with what find stored in s. If it reports false the call is made, once the time of
// [Phase.Settle] is over. If it returns an error the outcome stays unknown.
func (p Phase[S]) Lookup(find func(ctx context.Context, key string, s *S) (found bool, err error)) Phase[S] {
	p.lookup = find
	return p
}

// Settle sets for how long the record has to be idle before a Lookup that finds nothing is a proof:
// a call that was made may still be on its way (I14), so that d has to be longer than a call can
// take to arrive. Until then a run that goes on after a crash is suspended, and [Flow.Reconcile]
// returns [stet.ErrNotSettled]. A run that took over a record counts from that moment. Without
// Settle it is five minutes. 0 is for systems that refuse a call after they said that they do not
// have it; with [stet.Never] a Lookup that finds nothing is never a proof.
func (p Phase[S]) Settle(d time.Duration) Phase[S] {
	p.settle, p.settles = d, true
	return p
}

// proves reports whether "not found" is a proof once the record has been idle for so long.
func (p *Phase[S]) proves(idle time.Duration) bool {
	return p.settle != stet.Never && idle >= p.settle
}

// Call is the one effect that a foreign phase may have. It is not safe for concurrent use.
type Call struct {
	key     string
	id      string
	seen    bool // the phase knows the key, so that it may have sent it
	used    bool // by Do
	misused bool
}

// ErrSecondEffect is returned when a phase uses its [Call] twice. Each effect needs a phase of its
// own.
var ErrSecondEffect = errors.New("flow: a phase may have one effect, and this one began a second")

// Key returns the idempotency key to send. It is the same in all runs of this phase for this
// record, and differs between phases and between the lives of a record. A phase that has called Key
// may have sent it by itself: from then on an error that says nothing of the effect means [Maybe].
func (c *Call) Key() string {
	c.seen = true
	return c.key
}

// Do has the effect: it calls send, which does what cannot be taken back, with the key. send is
// called at most once per run, and not at all if ctx has ended. The error is that of send, or says
// that send was not called.
func (c *Call) Do(ctx context.Context, send func(ctx context.Context, key string) error) error {
	if c.used {
		c.misused = true
		return ErrSecondEffect
	}
	switch {
	case ctx.Err() != nil && c.seen: // send was not called, but something else may have been
		return Maybe(context.Cause(ctx))
	case ctx.Err() != nil:
		return RetryLater(context.Cause(ctx))
	}
	c.used, c.seen = true, true
	return send(ctx, c.key)
}

// Learned stores the id by which the other system knows the effect, together with the phase. A
// notice that has only this id then finds the record: see [stet.Finder].
func (c *Call) Learned(id string) { c.id = id }

// What an error of a phase says of its effect.
var (
	errDeclined = errors.New("flow: declined")
	errLater    = errors.New("flow: not done")
	errUnsure   = errors.New("flow: it may have happened")
	errOther    = errors.New("flow: the phase said nothing of its effect")
)

// final is what an error comes down to. Of several words the earlier one counts: to repeat a call
// needs proof that it was not made.
func final(err error) error {
	if err == nil {
		return nil
	}
	for _, word := range [...]error{stet.ErrForeignTx, errDeclined, errUnsure, errLater} {
		if errors.Is(err, word) {
			return word
		}
	}
	return errOther
}

type declined struct{ response stet.Response }

func (d *declined) Error() string {
	return fmt.Sprintf("%v, answered with %d", errDeclined, d.response.Status)
}

func (d *declined) Unwrap() error { return errDeclined }

// Decline returns the error of a phase that was refused for good, such as a declined card. The flow
// ends with it, and r is its answer, which is stored and replayed. A local phase is rolled back;
// phases before it stay committed. If these have to be undone, store the refusal in the state
// instead, and let later phases act on it.
func Decline(r stet.Response) error { return &declined{r} }

// RetryLater returns the error of a phase that provably had no effect, such as a refused
// connection. The flow is suspended, and goes on at this phase with a later request or a
// [Completer].
func RetryLater(err error) error { return fmt.Errorf("%w: %w", errLater, err) }

// Maybe returns the error of a phase that cannot tell whether it had its effect, such as a timeout.
// Where the other system honours keys the call is made again (see [Phase.HonoursKey]); otherwise
// the outcome is unknown.
func Maybe(err error) error { return fmt.Errorf("%w: %w", errUnsure, err) }
