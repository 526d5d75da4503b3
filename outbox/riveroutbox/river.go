// Package riveroutbox puts the effects that a transaction promised into River's tables instead of
// Stet's, for those who run River already: one queue to watch, and one way to say retry.
//
// [Insert] is outbox.Box.Add, and a [Worker] calls the same outbox.Handler: the downstream key is
// the same on every attempt, and the handler's results mean what they mean there, in River's words:
//
//	done      completed
//	retry     retryable, by River's retry policy or after the time that the handler says;
//	          discarded when the attempts are over
//	declined  cancelled
//	unknown   as retry if the message says that the system downstream honours its key;
//	          otherwise cancelled, until a person has it retried
//
// What River does not have is refused or missing: an order of messages, and a way to tell a dead
// letter from a discarded one. How many attempts there are, how long an attempt may take, and how
// long jobs are kept is River's to say; while a job is kept its effect cannot be inserted again.
package riveroutbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
)

// Args are the message, as River keeps it.
type Args struct {
	DownstreamKey string            `json:"downstream_key" river:"unique"`
	Topic         string            `json:"topic"`
	Name          string            `json:"name,omitempty"`
	Scope         []byte            `json:"scope_b64,omitempty"` // of the record: any bytes
	Key           []byte            `json:"key_b64,omitempty"`
	Life          int64             `json:"life,omitempty"` // when that record's life began, in microseconds since 1970
	Payload       []byte            `json:"payload_b64,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	KeyHonoured   bool              `json:"key_honoured,omitempty"` // as the message says; absent: no

	after time.Duration // what the handler said of the next attempt
}

// Kind implements [river.JobArgs].
func (Args) Kind() string { return "stet_outbox" }

// everywhere is each state a job can be in: an effect that was given up is not to be had by
// inserting it anew.
var everywhere = rivertype.JobStates()

// Insert writes m as a job, as part of tx. It is delivered if tx commits. It returns
// [outbox.ErrMessage] if m cannot be stored, and [stet.ErrExists] if there is a job with its
// downstream key; neither spoils tx. opts may be nil; its UniqueOpts are not used. A Delay is by
// this process's clock.
func Insert[TTx any](ctx context.Context, client *river.Client[TTx], tx TTx, m outbox.Message, opts *river.InsertOpts) error {
	m, err := m.Complete()
	switch {
	case err != nil:
		return err
	case m.OrderKey != "":
		return fmt.Errorf("%w: it has an OrderKey, and River keeps no order", outbox.ErrMessage)
	}
	for name, value := range m.Meta {
		if strings.Contains(name+value, "\x00") {
			return fmt.Errorf("%w: Meta has a NUL, which River cannot store", outbox.ErrMessage)
		}
	}
	o := *cmp.Or(opts, &river.InsertOpts{})
	o.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: everywhere}
	if m.Delay > 0 {
		o.ScheduledAt = time.Now().Add(m.Delay)
	}
	args := Args{DownstreamKey: m.DownstreamKey, Topic: m.Topic, Name: m.Name, Scope: []byte(m.Record.Scope), Key: []byte(m.Record.Key),
		Payload: m.Payload, Meta: m.Meta, KeyHonoured: m.KeyHonoured}
	if !m.Record.Life.IsZero() {
		args.Life = m.Record.Life.UnixMicro()
	}
	res, err := client.InsertTx(ctx, tx, args, &o)
	switch {
	case err != nil:
		return fmt.Errorf("riveroutbox: insert: %w", err)
	case res.UniqueSkippedAsDuplicate:
		return fmt.Errorf("riveroutbox: this effect is in the outbox already: %w", stet.ErrExists)
	}
	return nil
}

// Worker delivers jobs of [Insert] by an outbox.Handler. If a message does not say that its key is
// honoured, no attempt follows one whose outcome is not known; that goes also for an attempt whose
// process died, which River would repeat. TTx is the transaction of River's driver.
// It is registered once, by river.AddWorker, and dispatches on the topic itself where there are
// several.
type Worker[TTx any] struct {
	river.WorkerDefaults[Args]
	Handler outbox.Handler // delivers one message; required
}

// Work implements [river.Worker].
func (w *Worker[TTx]) Work(ctx context.Context, job *river.Job[Args]) error {
	if !job.Args.KeyHonoured && abandoned(job.Errors) {
		return river.JobCancel(errors.New("unknown: an earlier attempt ended without a result"))
	}
	what, after, text := w.Handler.Deliver(ctx, stored(job), keep[TTx](job.ID)).Outcome()
	switch {
	case what == "done":
		return nil
	case what == "declined", what == "unknown" && !job.Args.KeyHonoured:
		return river.JobCancel(errors.New(text))
	}
	job.Args.after = after
	return errors.New(text)
}

// NextRetry implements [river.Worker]: the handler's word, if it has said one, or else the client's
// policy.
func (w *Worker[TTx]) NextRetry(job *river.Job[Args]) time.Time {
	if job.Args.after <= 0 {
		return time.Time{}
	}
	return time.Now().Add(job.Args.after)
}

// abandoned reports whether the last attempt ended in a way that this package did not write: with
// its process, and River has noticed. Where a person says retry after that, the last word is this
// package's own.
func abandoned(all []rivertype.AttemptError) bool {
	if len(all) == 0 {
		return false
	}
	last := strings.TrimPrefix(all[len(all)-1].Error, cancelled)
	return !slices.ContainsFunc([]string{"retry: ", "declined: ", "unknown: "}, func(own string) bool { return strings.HasPrefix(last, own) })
}

// cancelled is what River writes before the text of a job that has cancelled itself.
var cancelled = strings.TrimSuffix(river.JobCancel(errors.New("x")).Error(), "x")

// output is what a job has to show for itself.
type output struct {
	DownstreamID string `json:"downstream_id"`
}

// stored is the message as the outbox would have it.
func stored(job *river.Job[Args]) outbox.Stored {
	a := &job.Args
	m := outbox.Stored{ID: job.ID, State: outbox.Running, Attempt: job.Attempt, CreatedAt: job.CreatedAt, UpdatedAt: job.CreatedAt, DueAt: job.ScheduledAt,
		Message: outbox.Message{Topic: a.Topic, Name: a.Name, Record: outbox.Record{ID: stet.ID{Scope: stet.Scope(a.Scope), Key: stet.Key(a.Key)}},
			Payload: a.Payload, Meta: a.Meta, KeyHonoured: a.KeyHonoured, DownstreamKey: a.DownstreamKey}}
	if a.Life != 0 {
		m.Record.Life = time.UnixMicro(a.Life).UTC()
	}
	var o output
	if raw := job.Output(); raw != nil && json.Unmarshal(raw, &o) == nil { // of an earlier attempt
		m.DownstreamID = o.DownstreamID
	}
	if job.AttemptedAt != nil {
		m.UpdatedAt = *job.AttemptedAt
	}
	for _, e := range job.Errors {
		m.Errors = append(m.Errors, outbox.Failure{Attempt: e.Attempt, At: e.At, Error: e.Error})
	}
	return m
}

// keep stores the downstream id as the job's output.
func keep[TTx any](job int64) func(ctx context.Context, id string) error {
	return func(ctx context.Context, id string) error {
		client, err := river.ClientFromContextSafely[TTx](ctx)
		if err == nil {
			_, err = client.JobUpdate(ctx, job, &river.JobUpdateParams{Output: output{id}})
		}
		if err != nil {
			return fmt.Errorf("riveroutbox: downstream id: %w", err)
		}
		return nil
	}
}
