package stet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Refused is the error of [Do] when the key's record allows no execution. Verdict says why.
type Refused struct {
	Verdict    Verdict
	RetryAfter time.Duration // InProgress, Unresolved: when to ask again
	Mismatch   []string      // Mismatch: the parts that differ, as in [Decision]
}

func (r *Refused) Error() string { return "stet: not executed: " + r.Verdict.String() }

// Result is what [DoResult] returns.
type Result[T any] struct {
	Value    T
	Replayed bool // it is the stored result of an earlier call: nothing was executed
	Attempt  int  // which execution of the key it is the result of, from 1
}

// Do executes run at most once per key, for callers without HTTP: queue consumers, scheduled jobs,
// gRPC methods. The first result is stored as JSON; later calls return it without executing
// anything. [DoResult] tells which of the two happened. A call that meets another one with the same
// key, still running, is refused, or waits for it as long as [Request.Wait] says.
//
// If run returns an error, the outcome is unknown, because the effect may have happened before the
// error, unless run has called [Claim.NotExecuted]. A final refusal, such as a declined card, is a
// result: return it as T. The context given to run is held: see [Claim.Hold].
//
// The error is a [*Refused], that of run, or infrastructure. If only storing the result failed, the
// result is returned together with that error: the effect has happened, see [Claim.Settle].
func Do[T any](
	ctx context.Context, e *Engine, q Request, run func(ctx context.Context, c *Claim) (T, error),
) (T, error) {
	r, err := DoResult(ctx, e, q, run)
	return r.Value, err
}

// DoResult is [Do], and also tells whether the result is a replay.
func DoResult[T any](
	ctx context.Context, e *Engine, q Request, run func(ctx context.Context, c *Claim) (T, error),
) (Result[T], error) {
	d, err := e.Begin(ctx, q)
	switch {
	case err != nil:
		return Result[T]{}, err
	case d.Verdict == Execute:
		r := Result[T]{Attempt: d.Record.Attempt}
		r.Value, err = execute(ctx, d.Claim, run)
		return r, err
	case d.Verdict == Replay && d.Record.Response != nil:
		r := Result[T]{Replayed: true, Attempt: d.Record.Attempt}
		if err := json.Unmarshal(d.Record.Response.Body, &r.Value); err != nil {
			return r, fmt.Errorf("stet: Do: the stored result is no %T: %w", r.Value, err)
		}
		return r, nil
	}
	return Result[T]{}, &Refused{d.Verdict, d.RetryAfter(defaultExecution), d.Mismatch}
}

func execute[T any](
	ctx context.Context, c *Claim, run func(ctx context.Context, c *Claim) (T, error),
) (result T, err error) {
	held := c.Hold(ctx, nil)
	var o Outcome
	settled := false
	defer func() {
		// A panic, of run or of its result's MarshalJSON, goes on. The outcome is unknown.
		if !settled {
			if c.Stated() != Retryable {
				c.Unknown("panic")
			}
			_ = c.Settle(ctx, Outcome{})
		}
	}()
	result, err = run(held, c)
	if err == nil {
		o.Response.Status = 200
		if o.Response.Body, err = json.Marshal(result); err != nil {
			err = fmt.Errorf("stet: Do: the result cannot be stored: %w", err)
		}
	}
	if err != nil && c.Stated() == 0 {
		c.Unknown("error")
	}
	settled = true
	if serr := c.Settle(ctx, o); serr != nil && err == nil {
		err = serr
	}
	return result, err
}
