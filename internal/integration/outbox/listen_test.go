package outbox

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// seldom is a pause that no test waits for: what is delivered before was told of.
const seldom = 10 * time.Minute

// listener is a worker on Postgres that listens, and hardly ever polls. Deliveries come out of the
// channels, and what it was told.
func (db *database) listener(t *testing.T) (w outbox.Worker, got <-chan int64, told <-chan struct{}) {
	t.Helper()
	config, err := pgx.ParseConfig(db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	ids, rings := make(chan int64, 100), make(chan struct{}, 100)
	own, err := sql.Open(db.driver, db.dsn) // what the test asks must not hide what the worker asked last
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	w = db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result { ids <- d.ID; return outbox.Delivered() })
	w.DB, w.Poll = own, seldom
	listen := pgxstore.OutboxListener(config)
	w.Listen = func(ctx context.Context, wake func()) error {
		return listen(ctx, func() { wake(); rings <- struct{}{} })
	}
	return w, ids, rings
}

// start runs the worker until the test ends.
func start(t *testing.T, w outbox.Worker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func next[T any](t *testing.T, got <-chan T, within time.Duration) (v T) {
	t.Helper()
	select {
	case v = <-got:
	case <-time.After(within):
		t.Fatalf("nothing within %s", within)
	}
	return v
}

// eventually asks the server until it says yes.
func (db *database) eventually(t *testing.T, query string, args ...any) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for ok := false; !ok; {
		if err := db.QueryRowContext(t.Context(), query, args...).Scan(&ok); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("not true: %s", query)
		}
	}
}

// asleep: the worker has not looked for a second.
const asleep = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%stet_outbox%' " +
	"AND query_start > clock_timestamp() - interval '1 second'"

// A worker that sleeps hears of a message when its transaction commits, and finds those that are
// added right behind it, of which no notification tells.
func TestListen(t *testing.T) {
	db := fresh(t, sqlstore.Postgres)
	w, got, told := db.listener(t)
	start(t, w)
	next(t, told, time.Minute) // it listens
	for range 2 {
		db.eventually(t, asleep)
		for len(told) > 0 { // of those behind the last one, if that took long
			<-told
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := db.box.Add(t.Context(), tx, outbox.Message{Topic: "t"}); err != nil {
				t.Fatal(errors.Join(err, tx.Rollback()))
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next(t, told, time.Minute)
		next(t, got, time.Minute)
		tier.Took(t, "a delivery after the commit", time.Since(began), time.Second)
		db.add(t, outbox.Message{Topic: "t"}, outbox.Message{Topic: "t"})
		for range 4 {
			next(t, got, time.Minute)
		}
	}
}

// Without its connection the worker says so, polls, and listens again.
func TestListenerKilled(t *testing.T) {
	db := fresh(t, sqlstore.Postgres)
	w, got, told := db.listener(t)
	w.Poll = 50 * time.Millisecond
	events := make(chan outbox.Event, 100)
	w.Observe = func(e outbox.Event) { events <- e }
	start(t, w)
	next(t, told, time.Minute)
	db.eventually(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	if e := <-events; e.Result != "error" || e.Err == nil {
		t.Errorf("of the connection: %+v", e)
	}
	db.add(t, outbox.Message{Topic: "t"}) // no connection listens for a second
	next(t, got, time.Minute)
	next(t, told, time.Minute)
}

// A message of a transaction of pgx, which says so too; and one of a transaction that was rolled
// back, which does not exist.
func TestPgx(t *testing.T) {
	db := fresh(t, sqlstore.Postgres)
	w, got, told := db.listener(t)
	start(t, w)
	next(t, told, time.Minute)
	conn, err := pgx.Connect(t.Context(), db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	m := outbox.Message{Topic: "t", Payload: []byte("\x00\xff"), DownstreamKey: "one"}
	undo := errors.New("undo")
	for _, want := range []error{undo, nil, stet.ErrExists} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if err := outbox.New(sqlstore.Postgres).Add(t.Context(), pgxstore.Execer(tx), m); err != nil {
				return err
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Fatalf("%v instead of %v", err, want)
		}
	}
	id := next(t, got, time.Minute)
	next(t, told, time.Minute)
	if all := db.list(t); len(all) != 1 || all[0].ID != id || string(all[0].Payload) != "\x00\xff" {
		t.Errorf("messages: %v", all)
	}
}

// A value on Wake ends the pause, on any database.
func TestWake(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		got, wake := make(chan int64, 1), make(chan struct{})
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result { got <- d.ID; return outbox.Delivered() })
		w.Poll, w.Wake = seldom, wake
		start(t, w)
		for range 2 {
			db.add(t, outbox.Message{Topic: "t"})
			wake <- struct{}{}
			next(t, got, time.Minute)
		}
	})
}

// A look costs no more for what is not due yet, however much there is of it.
func TestScheduled(t *testing.T) {
	db := fresh(t, sqlstore.Postgres)
	const scheduled = 20_000
	if _, err := db.ExecContext(t.Context(), `INSERT INTO stet_outbox (version, behind, attempt, created_at, updated_at, due_at, state, scope, key, life, topic, name,
		order_key, downstream_key, downstream_id, payload, meta, errors)
		SELECT 1, 0, 0, 0, 0, 4000000000000000 + i, 'pending', '', '', 0, 't', '', '', 'ob_' || i, '', '', '{}', '' FROM generate_series(1, $1::bigint) i`, scheduled); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "ANALYZE stet_outbox"); err != nil {
		t.Fatal(err)
	}
	own, err := sql.Open(db.driver, db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.add(t, outbox.Message{Topic: "t"})
	w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() })
	w.DB = own
	until(t, w, 1)
	if err := own.Close(); err != nil { // a connection that ends has its work counted
		t.Fatal(err)
	}
	db.eventually(t, "SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = 'stet_outbox_pending'")
	var read int64
	if err := db.QueryRowContext(t.Context(), "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'stet_outbox_pending'").Scan(&read); err != nil {
		t.Fatal(err)
	}
	if read >= scheduled {
		t.Errorf("to find one message %d were looked at", read)
	}
}
