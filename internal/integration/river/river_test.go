// Package river tests the adapter to River on a real Postgres, and measures River beside Stet's own
// outbox.
package river

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/outbox/riveroutbox"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// database makes a database with River's tables.
func database(t testing.TB, s *testserver.Server, name string) *pgxpool.Pool {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.PostgresDSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(s.PostgresDSN(name))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return pool
}

var silent = slog.New(slog.DiscardHandler)

// at once is a retry policy for tests.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// start runs a client whose worker is w, until the test ends. What becomes of jobs comes out of the
// channel.
func start(t testing.TB, pool *pgxpool.Pool, w *riveroutbox.Worker[pgx.Tx]) (*river.Client[pgx.Tx], <-chan *river.Event) {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silent, Workers: workers, RetryPolicy: atOnce{}, FetchPollInterval: 100 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	events, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled)
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unsubscribe()
		if err := client.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client, events
}

func insert(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], m outbox.Message, opts *river.InsertOpts) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return riveroutbox.Insert(ctx, client, tx, m, opts) })
}

func next(t *testing.T, events <-chan *river.Event) *rivertype.JobRow {
	t.Helper()
	select {
	case e := <-events:
		return e.Job
	case <-time.After(time.Minute):
		t.Fatal("no job has ended")
		return nil
	}
}

// CR-13 in River's tables: a transaction rolled back leaves nothing; one effect of one record is
// there once, with the key that Stet's own outbox would have given it, and the transaction goes on.
func TestInsert(t *testing.T) {
	ctx := t.Context()
	pool := database(t, testserver.Postgres(t), "river_insert")
	got := make(chan *outbox.Delivery, 1)
	client, events := start(t, pool, &riveroutbox.Worker[pgx.Tx]{Handler: func(_ context.Context, d *outbox.Delivery) outbox.Result {
		got <- d
		return outbox.Delivered()
	}})
	m := outbox.Message{Topic: "charge", Name: "n", Record: outbox.Record{ID: stet.ID{Scope: "s\x00\xff", Key: "k\xfe"}, Life: time.UnixMicro(1).UTC()},
		Payload: []byte("\x00\xff"), Meta: map[string]string{"trace": "a"}}
	want, err := m.Complete()
	if err != nil {
		t.Fatal(err)
	}
	undo := errors.New("undo")
	for _, c := range []struct {
		name       string
		m          outbox.Message
		then, want error
	}{
		{"rolled back", m, undo, undo},
		{"committed", m, nil, nil},
		{"again", m, nil, stet.ErrExists},
		{"in order", outbox.Message{Topic: "t", OrderKey: "o"}, nil, outbox.ErrMessage},
		{"no topic", outbox.Message{}, nil, outbox.ErrMessage},
		{"NUL", outbox.Message{Topic: "t", Meta: map[string]string{"a\x00": ""}}, nil, outbox.ErrMessage},
	} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			err := riveroutbox.Insert(ctx, client, tx, c.m, nil)
			if _, spoiled := tx.Exec(ctx, "SELECT 1"); spoiled != nil {
				t.Errorf("%s: the transaction is spoiled: %v", c.name, spoiled)
			}
			return errors.Join(err, c.then)
		})
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v instead of %v", c.name, err, c.want)
		}
	}
	if job := next(t, events); job.State != rivertype.JobStateCompleted {
		t.Errorf("the job is %s", job.State)
	}
	d := <-got
	if d.DownstreamKey != want.DownstreamKey || d.Record != m.Record || d.Topic != m.Topic || d.Name != m.Name || !bytes.Equal(d.Payload, m.Payload) ||
		d.Meta["trace"] != "a" || d.Attempt != 1 || d.CreatedAt.IsZero() {
		t.Errorf("delivered %+v of %+v", d, m)
	}
	if err := insert(ctx, pool, client, m, nil); !errors.Is(err, stet.ErrExists) {
		t.Errorf("an effect that has happened: %v", err)
	}
}

// What each result makes of a job, with one key on all attempts, and the id from downstream kept
// before the end.
func TestResults(t *testing.T) {
	pool := database(t, testserver.Postgres(t), "river_results")
	boom := errors.New("boom")
	var mu sync.Mutex
	keys, ids := map[string]bool{}, []string{}
	for _, c := range []struct {
		name     string
		handler  outbox.Handler
		honoured bool
		attempts int
		want     rivertype.JobState
		text     string
	}{
		{"done", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() }, false, 1, rivertype.JobStateCompleted, ""},
		{"retry", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Retry(0, boom) }, false, 3, rivertype.JobStateDiscarded, "retry: boom"},
		{"later", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Retry(time.Hour, boom) }, false, 1, rivertype.JobStateRetryable, "retry: boom"},
		{"decline", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Decline("no") }, false, 1, rivertype.JobStateCancelled, "declined: no"},
		{"unknown", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Maybe(boom) }, false, 1, rivertype.JobStateCancelled, "unknown: boom"},
		{"honoured", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Maybe(boom) }, true, 3, rivertype.JobStateDiscarded, "unknown: boom"},
		{"panic", func(context.Context, *outbox.Delivery) outbox.Result { panic("ouch") }, false, 1, rivertype.JobStateCancelled, "panicked: ouch"},
		{"nothing", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Result{} }, false, 1, rivertype.JobStateCancelled, "no result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clear(keys)
			ids = ids[:0]
			client, events := start(t, pool, &riveroutbox.Worker[pgx.Tx]{Handler: func(ctx context.Context, d *outbox.Delivery) outbox.Result {
				mu.Lock()
				defer mu.Unlock()
				keys[d.DownstreamKey] = true
				ids = append(ids, d.DownstreamID)
				if err := d.Downstream(ctx, "ch_1"); err != nil {
					t.Error(err)
				}
				return c.handler(ctx, d)
			}})
			if err := insert(t.Context(), pool, client, outbox.Message{Topic: c.name, DownstreamKey: c.name, KeyHonoured: c.honoured}, &river.InsertOpts{MaxAttempts: 3}); err != nil {
				t.Fatal(err)
			}
			var job *rivertype.JobRow
			for range c.attempts {
				job = next(t, events)
			}
			if err := insert(t.Context(), pool, client, outbox.Message{Topic: "other", DownstreamKey: c.name}, nil); !errors.Is(err, stet.ErrExists) {
				t.Errorf("the same effect, when its job is %s: %v", job.State, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if job.State != c.want || job.Attempt != c.attempts || len(keys) != 1 || string(job.Output()) != `{"downstream_id": "ch_1"}` {
				t.Errorf("%s after %d attempts with %d keys, output %s", job.State, job.Attempt, len(keys), job.Output())
			}
			for _, e := range job.Errors {
				if !strings.Contains(e.Error, c.text) {
					t.Errorf("an error: %s", e.Error)
				}
			}
			if c.text == "" != (len(job.Errors) == 0) || len(ids) > 1 && ids[1] != "ch_1" {
				t.Errorf("errors %v, ids seen %q", job.Errors, ids)
			}
			if c.name == "later" && time.Until(job.ScheduledAt) < 50*time.Minute {
				t.Errorf("the next attempt is at %s", job.ScheduledAt)
			}
		})
	}
}

// W31: the outcome of an attempt that ended with its process is unknown. It is repeated if the
// key is honoured, or when a person has said so.
func TestAbandoned(t *testing.T) {
	ctx := t.Context()
	pool := database(t, testserver.Postgres(t), "river_abandoned")
	for _, honoured := range []bool{true, false} {
		t.Run(fmt.Sprintf("honoured %t", honoured), func(t *testing.T) {
			calls := make(chan int, 10)
			client, events := start(t, pool, &riveroutbox.Worker[pgx.Tx]{Handler: func(_ context.Context, d *outbox.Delivery) outbox.Result {
				calls <- d.Attempt
				return outbox.Delivered()
			}})
			// As River's rescuer leaves it behind.
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := riveroutbox.Insert(ctx, client, tx, outbox.Message{Topic: "t", KeyHonoured: honoured}, nil); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `UPDATE river_job SET attempt = 1, errors = ARRAY['{"at":"2026-01-01T00:00:00Z","attempt":1,"error":"Stuck job rescued by JobRescuer","trace":""}'::jsonb]
					WHERE state = 'available'`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			job := next(t, events)
			if honoured {
				if job.State != rivertype.JobStateCompleted || len(calls) != 1 {
					t.Errorf("honoured: %s after %d calls", job.State, len(calls))
				}
				return
			}
			if job.State != rivertype.JobStateCancelled || len(calls) != 0 {
				t.Errorf("not honoured: %s after %d calls", job.State, len(calls))
			}
			if _, err := client.JobRetry(ctx, job.ID); err != nil {
				t.Fatal(err)
			}
			if job = next(t, events); job.State != rivertype.JobStateCompleted || len(calls) != 1 {
				t.Errorf("a person said retry: %s after %d calls", job.State, len(calls))
			}
		})
	}
}
