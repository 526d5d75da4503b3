package stet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
)

// ErrNoResult is the error of [Do] when the operation is done and its result is not kept: because
// it could not be stored, or because others found the outcome. Nothing is executed again.
var ErrNoResult = errors.New("stet: it is done, and its result is not kept")

// Refused is the error of [Do] when the key's record allows no execution. Verdict says why; with
// Replay it is [ErrNoResult].
type Refused struct {
	Verdict    Verdict
	RetryAfter time.Duration // InProgress, Unresolved: when to ask again
	Mismatch   []string      // Mismatch: the parts that differ, as in [Decision]
}

func (r *Refused) Error() string { return "stet: not executed: " + r.Verdict.String() }

// Is reports whether target says the same in other words: see [ErrNoResult].
func (r *Refused) Is(target error) bool { return target == ErrNoResult && r.Verdict == Replay }

// Result is what [DoResult] returns.
type Result[T any] struct {
	Value    T
	Replayed bool // it is the stored result of an earlier call: nothing was executed
	Attempt  int  // which execution of the key it is the result of, from 1
}

// Do executes run at most once per key, for callers without HTTP: queue consumers, scheduled jobs,
// gRPC methods. The result is stored as JSON; later calls return it without executing anything.
// [DoResult] tells which of the two happened. A call that meets another one with the same key,
// still running, is refused, or waits for it as long as [Request.Wait] says.
//
// The first call returns what later ones return: the result as it was read back from its JSON, in
// which a number in an any is a [json.Number]. A T of which a part would be lost, or could not be
// read back, is refused before anything is executed: channels, functions, complex numbers,
// interfaces but any, unexported fields, and types with MarshalJSON and no UnmarshalJSON (likewise
// for text). A field that is no part of the result has the tag json:"-". If a result turns out not
// to be storable, such as NaN or text that is not UTF-8, the effect has happened: that is stored
// without the result, the first call returns the result together with [ErrNoResult], and later ones
// return that error.
//
// One key is for one operation: that of [Request.Operation] or, if that is "", the one whose result
// is T, with its package. A call for another operation is a Mismatch. Name the operation where T is
// a type that others return as well, such as string, or one that may be renamed or moved.
//
// If run returns an error, the outcome is unknown, because the effect may have happened before the
// error, unless run has called [Claim.NotExecuted]. A final refusal, such as a declined card, is a
// result: return it as T. The context given to run is held: see [Claim.Hold].
//
// The error is a [*Refused], that of run, [ErrNoResult], or infrastructure. If only storing the
// result failed, the result is returned together with that error: the effect has happened, see
// [Claim.Settle].
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
	t := reflect.TypeFor[T]()
	if err := checkResult(t); err != nil {
		return Result[T]{}, err
	}
	q.Operation = cmp.Or(q.Operation, operationOf(t))
	d, err := e.Begin(ctx, q)
	switch {
	case err != nil:
		return Result[T]{}, err
	case d.Verdict == Execute:
		r := Result[T]{Attempt: d.Record.Attempt}
		r.Value, err = execute(ctx, d.Claim, run)
		return r, err
	case d.Verdict == Replay && d.Record.Response != nil && d.Record.Kept == KeptWhole:
		r := Result[T]{Replayed: true, Attempt: d.Record.Attempt}
		r.Value, err = decodeResult[T](d.Record.Response.Body)
		return r, err
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
	switch {
	case err == nil:
		o.Response.Status = 200
		if o.Response.Body, err = encodeResult(&result); err != nil {
			o.Kept = KeptStatus
		}
	case c.Stated() == 0:
		c.Unknown("error")
	}
	settled = true
	if serr := c.Settle(ctx, o); serr != nil && err == nil {
		err = serr
	}
	return result, err
}

// encodeResult returns the JSON of a result, and makes the result what that is read back as. With
// an error the result stays as it is.
func encodeResult[T any](result *T) ([]byte, error) {
	body, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoResult, err)
	}
	if !isText(reflect.ValueOf(result).Elem()) {
		return nil, fmt.Errorf("%w: a string in the %T is not UTF-8: keep such bytes as []byte", ErrNoResult, *result)
	}
	back, err := decodeResult[T](body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoResult, err)
	}
	*result = back
	return body, nil
}

// decodeResult reads a result of which nothing may be lost. Its error holds nothing of the result.
func decodeResult[T any](body []byte) (result T, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	d.DisallowUnknownFields()
	if d.Decode(&result) == nil {
		if _, err := d.Token(); err == io.EOF {
			return result, nil
		}
	}
	var none T
	return none, fmt.Errorf("stet: Do: the stored result cannot be read as %s without a loss", reflect.TypeFor[T]())
}
