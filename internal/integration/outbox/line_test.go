package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// addMany commits n messages of one order key in one transaction.
func (db *database) addMany(t testing.TB, n int, key string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := db.box.Add(t.Context(), tx, outbox.Message{Topic: "blocked", OrderKey: key}); err != nil {
			t.Fatal(errors.Join(err, tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func (db *database) count(t testing.TB, where string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM stet_outbox WHERE "+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// looked is how many rows of the table the server has looked at. That of MariaDB counts all that
// its other tables have, too.
func (db *database) looked(t testing.TB) (n int64) {
	t.Helper()
	query := "SELECT CAST(SUM(VARIABLE_VALUE) AS SIGNED) FROM information_schema.GLOBAL_STATUS " +
		"WHERE VARIABLE_NAME IN ('HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_KEY')"
	if db.dialect == sqlstore.Postgres {
		query = "SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'stet_outbox')::bigint " +
			"FROM pg_stat_user_tables WHERE relname = 'stet_outbox'"
	}
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A11: messages behind a dead one are not looked at when others are delivered, however many they
// are.
func TestBlockedAreNotScanned(t *testing.T) {
	const blocked, others = 3000, 10
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "blocked", OrderKey: "k"})
		var mu sync.Mutex
		asked := map[string][]driver.NamedValue{}
		own := db.meddled(t, func(query string, args []driver.NamedValue, do func() error) error {
			mu.Lock()
			asked[query] = args
			mu.Unlock()
			return do()
		})
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			if d.Topic == "blocked" {
				return outbox.Decline("no")
			}
			return outbox.Delivered()
		})
		w.DB, w.Lease = own, time.Minute
		until(t, w, 1)
		db.addMany(t, blocked, "k")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for end := time.Now().Add(time.Minute); db.count(t, "behind = -1") > 0; {
			if time.Now().After(end) {
				t.Fatal("they are never sorted")
			}
		}
		cancel()
		if err := errors.Join(<-ended, own.Close()); err != nil { // a connection that ends has its work counted
			t.Fatal(err)
		}
		if db.dialect == sqlstore.SQLite {
			db.seeks(t, asked)
			return
		}
		if db.dialect == sqlstore.Postgres {
			db.exec(t, "ANALYZE stet_outbox")
			db.SetMaxIdleConns(0) // those that counted rows above, too
			db.eventually(t, "SELECT count(*) = 0 FROM pg_stat_activity "+
				"WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()")
		}
		before := db.looked(t)
		w.DB = db.meddled(t, func(_ string, _ []driver.NamedValue, do func() error) error { return do() })
		for range others {
			db.add(t, outbox.Message{Topic: "other", OrderKey: "o"}, outbox.Message{Topic: "other"})
		}
		until(t, w, 2*others)
		if err := w.DB.Close(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); db.looked(t) == before && time.Now().Before(end); {
		}
		if n := db.looked(t) - before; n > others*blocked/2 { // each that looked at them would look at all
			t.Errorf("to deliver %d messages %d rows were looked at", 2*others, n)
		} else {
			t.Logf("%d rows were looked at", n)
		}
	})
}

// seeks asks SQLite, which counts nothing, how it finds the rows of each statement.
func (db *database) seeks(t *testing.T, asked map[string][]driver.NamedValue) {
	t.Helper()
	claims := false
	for query, named := range asked {
		if !strings.Contains(query, "stet_outbox") {
			continue
		}
		var args []any
		for _, v := range named {
			args = append(args, v.Value)
		}
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(plan, "\n")
		if strings.Contains(all, "SCAN") {
			t.Errorf("%s\n%s", query, all)
		}
		if strings.Contains(query, "SET state = 'running'") {
			claims = strings.Contains(all, "(state=? AND behind=? AND due_at<?)")
		}
	}
	if !claims {
		t.Errorf("no claim that seeks: %v", asked)
	}
}

// A11, CR-12: lines under fire. Each order key has one adder, so that its transactions do not
// overlap; several workers deliver, some messages are declined, and discarded by hand. Each line
// keeps its order, one message at a time, and nothing is left behind.
func TestLines(t *testing.T) {
	const lines, each, workers = 6, 40, 3
	on(t, func(t *testing.T, db *database) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var mu sync.Mutex
		busy, last, over := map[string]bool{}, map[string]int64{}, 0
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			mu.Lock()
			defer mu.Unlock()
			if busy[d.OrderKey] || d.ID <= last[d.OrderKey] {
				t.Errorf("line %s: %d after %d, at once: %t", d.OrderKey, d.ID, last[d.OrderKey], busy[d.OrderKey])
			}
			busy[d.OrderKey] = true
			mu.Unlock()
			for range rand.N(200) {
				_ = db.Stats()
			}
			mu.Lock()
			busy[d.OrderKey] = false
			switch rand.N(10) {
			case 0:
				return outbox.Retry(0, errors.New("later"))
			case 1:
				last[d.OrderKey] = d.ID
				return outbox.Decline("no")
			}
			last[d.OrderKey] = d.ID
			over++
			return outbox.Delivered()
		})
		w.Lease, w.MaxAttempts, w.Concurrency = 10*time.Minute, 1000, 4 // so long that nothing is mended meanwhile
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				if err := w.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		for l := range lines {
			all.Go(func() { db.fill(ctx, t, fmt.Sprint(l), each) })
		}
		for done := 0; done < lines*each; {
			if ctx.Err() != nil {
				t.Errorf("%d of %d are over; %d are in no line, %d wait", done, lines*each,
					db.count(t, "behind = -1"), db.count(t, "behind > 0"))
				break
			}
			done = db.count(t, "state IN ('done', 'discarded')")
			dead, err := db.shows().List(t.Context(), outbox.Query{State: outbox.Dead})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range dead {
				if err := db.desk(t).Discard(t.Context(), m.Seen(), "ann", "stress"); err != nil {
					t.Error(err)
				}
			}
		}
		cancel()
		all.Wait()
	})
}

// fill adds messages of one order key, a few in a transaction.
func (db *database) fill(ctx context.Context, t *testing.T, key string, n int) {
	for n > 0 {
		tx, err := db.BeginTx(ctx, nil)
		for range min(n, 1+rand.N(3)) {
			if err == nil {
				err = db.box.Add(ctx, tx, outbox.Message{Topic: "t", OrderKey: key})
				n--
			}
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// A11: a message waits for all that were committed before it was added, also for one that was
// committed so late that another has gone ahead of it.
func TestLateCommit(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		if db.dialect == sqlstore.SQLite {
			return // there is one transaction at a time
		}
		late, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		add := func(tx *sql.Tx, name string) {
			if err := db.box.Add(t.Context(), tx, outbox.Message{Topic: "t", Name: name, OrderKey: "k"}); err != nil {
				t.Fatal(err)
			}
		}
		add(late, "late")
		db.add(t, outbox.Message{Topic: "t", Name: "ahead", OrderKey: "k"})
		inside, release := make(chan struct{}), make(chan struct{})
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			switch d.Name {
			case "ahead":
				close(inside)
				<-release
			case "late":
				return outbox.Decline("no")
			}
			return outbox.Delivered()
		})
		w.Lease = time.Minute
		events := make(chan outbox.Event, 10)
		w.Observe = func(e outbox.Event) { events <- e }
		start(t, w)
		<-inside
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		db.add(t, outbox.Message{Topic: "t", Name: "last", OrderKey: "k"})
		if e := next(t, events, time.Minute); e.Result != "dead" {
			t.Errorf("%+v", e)
		}
		close(release)
		if e := next(t, events, time.Minute); e.Result != "done" {
			t.Errorf("%+v", e)
		}
		db.add(t, outbox.Message{Topic: "t"}) // a later round than that in which the last one was woken
		if e := next(t, events, time.Minute); e.Result != "done" {
			t.Errorf("%+v", e)
		}
		all := db.list(t)
		if all[2].State != outbox.Pending {
			t.Errorf("behind a dead one, and %s", all[2].State)
		}
		if err := db.desk(t).Discard(t.Context(), all[0].Seen(), "ann", "sent by hand"); err != nil {
			t.Fatal(err)
		}
		if e := next(t, events, time.Minute); e.Result != "done" || e.ID != all[2].ID {
			t.Errorf("%+v", e)
		}
	})
}

// A11: what a hand in the table has left behind is found, after a while.
func TestLineIsMended(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "first", OrderKey: "k"}, outbox.Message{Topic: "second", OrderKey: "k"})
		ids := make(chan int64, 2)
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			if d.Topic == "first" {
				return outbox.Decline("no")
			}
			ids <- d.ID
			return outbox.Delivered()
		})
		w.Lease = 3 * time.Second // lines are looked at several times in it
		start(t, w)
		for end := time.Now().Add(time.Minute); db.count(t, "behind > 0") != 1 || db.count(t, "state IN ('dead', 'unknown')") != 1; {
			if time.Now().After(end) {
				t.Fatal(db.list(t))
			}
		}
		db.exec(t, "DELETE FROM stet_outbox WHERE topic = 'first'")
		next(t, ids, time.Minute)
	})
}

// A11: a message is not put behind one whose end is being committed: nothing would wake it then.
func TestSortBesideASettlement(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		if db.dialect == sqlstore.SQLite {
			return // there is one transaction at a time
		}
		db.add(t, outbox.Message{Topic: "first", OrderKey: "k"})
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		end := fmt.Sprintf("UPDATE stet_outbox SET state = 'done', behind = 0 WHERE id = %d", db.list(t)[0].ID)
		if _, err := tx.ExecContext(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		db.add(t, outbox.Message{Topic: "behind", OrderKey: "k"}, outbox.Message{Topic: "other", OrderKey: "l"})
		topics := make(chan string, 2)
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			topics <- d.Topic
			return outbox.Delivered()
		})
		w.Lease = 10 * time.Minute // nothing is mended meanwhile
		start(t, w)
		if topic := next(t, topics, time.Minute); topic != "other" { // sorted in the same round, or after it
			t.Errorf("%s went ahead", topic)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if topic := next(t, topics, time.Minute); topic != "behind" {
			t.Error(topic)
		}
	})
}
