package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// group sends writes while another connection holds the file, so that they end up in one
// transaction, and returns their errors.
func group(t *testing.T, s *sqlstore.Store, unlock func(), ctxs []*watched, write func(ctx context.Context, i int) error) []error {
	t.Helper()
	errs := make([]error, len(ctxs))
	var wg sync.WaitGroup
	for i, ctx := range ctxs {
		wg.Go(func() { errs[i] = write(ctx, i) })
		select {
		case <-ctx.asked:
		case <-time.After(time.Minute):
			t.Fatalf("write %d does not wait", i)
		}
	}
	unlock()
	wg.Wait()
	return errs
}

func contexts(t *testing.T, n int) []*watched {
	ctxs := make([]*watched, n)
	for i := range ctxs {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		ctxs[i] = watch(ctx)
	}
	return ctxs
}

// A write that the database refuses takes no neighbour with it, whether the statement alone is
// undone or the whole transaction with it.
func TestPoisonedWriteFailsAlone(t *testing.T) {
	for _, how := range []string{"ABORT", "ROLLBACK", "FAIL"} {
		t.Run(how, func(t *testing.T) {
			db := database(t, file(t))
			s := over(t, db, sqlstore.Config{})
			const n, poisoned = 20, 7
			records := make([]stet.Record, n)
			for i := range records {
				records[i] = create(t, s, fmt.Sprint("key-", i))
			}
			if _, err := db.Exec(fmt.Sprintf(`CREATE TRIGGER poison BEFORE UPDATE ON stet_records WHEN NEW.key = 'key-%d'
				BEGIN SELECT RAISE(%s, 'poisoned'); END`, poisoned, how)); err != nil {
				t.Fatal(err)
			}
			errs := group(t, s, lock(t, db), contexts(t, n), func(ctx context.Context, i int) error {
				h, b := completed(records[i], "done")
				_, err := s.Replace(ctx, records[i].Version, h, b)
				return err
			})
			for i, err := range errs {
				got, gerr := s.Get(t.Context(), records[i].ID)
				want := stet.Completed
				if i == poisoned {
					want = stet.Running
				}
				if (err != nil) != (i == poisoned) || gerr != nil || got.State != want {
					t.Errorf("write %d: %v; then %s, %v", i, err, got.State, gerr)
				}
			}
		})
	}
}

// Two writes of a group to one key: the second sees the first.
func TestGroupKeepsTheOrderOfAKey(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	r := create(t, s, "k")
	got := make([]stet.Head, 2)
	errs := group(t, s, lock(t, db), contexts(t, 2), func(ctx context.Context, i int) (err error) {
		h, b := completed(r, fmt.Sprint("by ", i))
		got[i], err = s.Replace(ctx, r.Version, h, b)
		return err
	})
	if errs[0] != nil || !errors.Is(errs[1], stet.ErrStale) || got[1].Version != got[0].Version {
		t.Fatalf("got %v", errs)
	}
}

// ended is a context that ends without closing its channel: its deadline passed between two looks,
// as the engine's do.
type ended struct {
	context.Context
	err error
}

func (e *ended) Err() error { return e.err }

// What callers gave up before it was begun is not written (case of the laws: a caller that gives up
// leaves nothing behind).
func TestGoneCallersAreLeftOut(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	const n = 6
	records := make([]stet.Record, n)
	for i := range records {
		records[i] = create(t, s, fmt.Sprint("key-", i))
	}
	ctxs := contexts(t, n)
	silent := &ended{Context: ctxs[1].Context}
	ctxs[1].Context = silent
	hangup, cancel := context.WithCancel(t.Context())
	ctxs[3].Context = hangup
	free := lock(t, db)
	errs := group(t, s, func() { silent.err = context.DeadlineExceeded; cancel(); free() }, ctxs, func(ctx context.Context, i int) error {
		return s.Delete(ctx, records[i].ID, records[i].Version)
	})
	for i, err := range errs {
		_, gerr := s.Get(t.Context(), records[i].ID)
		switch i {
		case 1:
			if !errors.Is(err, context.DeadlineExceeded) || gerr != nil {
				t.Errorf("write %d of a silent end: %v; then %v", i, err, gerr)
			}
		case 3:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("write %d of a hang-up: %v", i, err)
			}
		default:
			if err != nil || !errors.Is(gerr, stet.ErrNotFound) {
				t.Errorf("write %d: %v; then %v", i, err, gerr)
			}
		}
	}
}

// While another process writes for long, callers wait no longer than they said, and what they gave
// up does not happen later.
func TestDeadlinesWhileAnotherProcessWrites(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	r := create(t, s, "there")
	unlock := lock(t, db)
	var wg sync.WaitGroup
	for i := range 10 { // the first leads, the others queue
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+10*i)*time.Millisecond)
			defer cancel()
			fresh := sample()
			fresh.Key = stet.Key(fmt.Sprint("fresh-", i))
			if _, err := s.Create(ctx, fresh); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("create %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	// A duplicate is answered meanwhile: what is there is read without the lock.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got, err := s.Create(ctx, r); !errors.Is(err, stet.ErrExists) || got.Version != r.Version {
		t.Errorf("a duplicate: %v", err)
	}
	unlock()
	create(t, s, "after")
	if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 2 {
		t.Errorf("%d records, %v; want the two that were acknowledged", len(heads), err)
	}
}

// A duplicate of a record that another process made is answered while a transaction holds the file,
// to a lone caller and to those who wait behind others.
func TestForeignDuplicatesWhileTheFileIsHeld(t *testing.T) {
	path := file(t)
	other := over(t, database(t, path), sqlstore.Config{})
	var there []stet.Record
	for i := range 8 {
		there = append(there, create(t, other, fmt.Sprint("there-", i)))
	}
	db := database(t, path)
	s := over(t, db, sqlstore.Config{}) // knows nothing of what the other made
	defer lock(t, db)()
	for _, callers := range []int{1, 8} {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				r := there[(callers+i)%8] // each is asked for once: then its name is known
				again := r
				if callers > 1 && i%2 == 0 { // those who have to wait
					again = sample()
					again.Key = stet.Key(fmt.Sprint("fresh-", i))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				got, err := s.Create(ctx, again)
				switch {
				case again.Key != r.Key && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("a new key: %v", err)
				case again.Key == r.Key && (!errors.Is(err, stet.ErrExists) || got.Version != r.Version):
					t.Errorf("a duplicate: %v", err)
				}
			})
		}
		wg.Wait()
	}
}

func TestCloseGivesConnectionsBack(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	r := create(t, s, "k")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are still held", n)
	}
	if _, err := s.Get(t.Context(), r.ID); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Create(t.Context(), sample()); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("create: %v", err)
	}
	if err := s.Delete(t.Context(), r.ID, r.Version); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("delete: %v", err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("the caller's database: %v", err)
	}
}
