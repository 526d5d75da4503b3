package mysql

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

// large is a record with so many bytes of a request, which compress to nothing less.
func large(key string, n int) stet.Record {
	r := named(key)
	r.Request = bytes.Repeat([]byte{0xff}, n)
	return r
}

// neighbours run while one caller after the other writes what is too large, and all of them get
// their answers.
func neighbours(t *testing.T, s stet.Store, tooLarge func(round int) error) {
	t.Helper()
	const rounds, callers = 5, 24
	for round := range rounds {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := tooLarge(round); err == nil || errors.Is(err, stet.ErrExists) || errors.Is(err, stet.ErrStale) {
					t.Errorf("what is too large: %v", err)
				}
			})
		}
		for i := range callers {
			wg.Go(func() {
				r, err := s.Create(within(t, 30*time.Second), named(fmt.Sprint("neighbour-", round, "-", i)))
				if err != nil {
					t.Errorf("a neighbour's Create: %v", err)
					return
				}
				if _, err := s.Get(within(t, 30*time.Second), r.ID); err != nil {
					t.Errorf("a neighbour's Get: %v", err)
				}
				h, body := completed(r, "neighbour")
				if _, err := s.Replace(within(t, 30*time.Second), r.Version, h, body); err != nil {
					t.Errorf("a neighbour's Replace: %v", err)
				}
			})
		}
		wg.Wait()
	}
}

// A record that is larger than the server reads is refused before it is sent, by the name of the
// setting and for good; alone, and in a transaction, which stays usable (B02, K08).
func TestTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	db := migrated(t, fresh(t, testserver.NewMariaDB(t, "--max-allowed-packet=4M").Addr))
	s := over(t, db)
	made := create(t, s, "made")
	aborted := func() (n int) {
		err := db.QueryRowContext(t.Context(), "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'ABORTED_CLIENTS'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := aborted()
	neighbours(t, s, func(round int) (err error) {
		if round%2 == 0 {
			_, err = s.Create(within(t, 30*time.Second), large("large", 5<<20))
		} else {
			h := made.Head
			h.Version = draw()
			body := &stet.Body{Request: make([]byte, 3<<20), Response: &stet.Response{Body: make([]byte, 2<<20)}}
			_, err = s.Replace(within(t, 30*time.Second), made.Version, h, body)
		}
		if err != nil && (!strings.Contains(err.Error(), "max_allowed_packet is 4194304") || !strings.Contains(err.Error(), "nothing was sent") ||
			!errors.Is(err, stet.ErrRefused)) {
			t.Errorf("what is too large: %v", err)
		}
		return err
	})
	tx, bound := begin(t, s, db)
	if _, err := bound.Create(t.Context(), large("large", 5<<20)); err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("in a transaction: %v", err)
	}
	if _, err := bound.Create(t.Context(), named("beside")); err != nil {
		t.Errorf("in a transaction, beside what is too large: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if n := aborted() - before; n != 0 {
		t.Errorf("the server closed %d connections", n)
	}
	if _, err := s.Create(t.Context(), large("fits", 3<<20)); err != nil {
		t.Errorf("what fits: %v", err)
	}
	if got, err := s.Get(t.Context(), named("fits").ID); err != nil || len(got.Request) != 3<<20 {
		t.Errorf("what fits: %v", err)
	}
}

// Where the server refuses a statement nevertheless, because it was given a smaller limit since
// then, it closes the connection behind its answer. No other caller gets that connection (B02).
// Once the store has looked at the settings again, nothing of the kind is sent (K08).
func TestClosedConnectionsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	dsn := fresh(t, testserver.NewMariaDB(t).Addr)
	admin := migrated(t, dsn)
	s := over(t, connect(t, user(t, admin, dsn, "plain", plainRights)))
	execute(t, admin, "SET GLOBAL max_allowed_packet = 1048576") // of sessions that begin from now on: the store's own
	execute(t, admin, "KILL USER plain")
	eventually(t, "another connection", func() bool { _, err := s.Get(t.Context(), named("none").ID); return errors.Is(err, stet.ErrNotFound) })
	neighbours(t, s, func(round int) error {
		r := named(fmt.Sprint("large-", round))
		for i := range 150 { // a head, which is sent in one piece
			if r.Meta == nil {
				r.Meta = map[string]string{}
			}
			r.Meta[fmt.Sprint(i)] = strings.Repeat("x", 15<<10)
		}
		_, err := s.Create(within(t, 30*time.Second), r)
		return err
	})
	check, _ := stet.As[stet.Checker](s)
	if err := check.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	sizes, _ := stet.As[stet.Sizer](s)
	if most := sizes.Sizes().Body; most >= 1<<20 {
		t.Errorf("it says that it takes %d bytes", most)
	}
	if _, err := s.Create(t.Context(), large("after", 2<<20)); !errors.Is(err, stet.ErrRefused) || !strings.Contains(err.Error(), "nothing was sent") {
		t.Errorf("after the look: %v", err)
	}
}

// Where the server says that it can never take a value, nothing is tried again (K08).
func TestTheServersOwnRefusalsAreFinal(t *testing.T) {
	t.Parallel()
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	admin := migrated(t, dsn)
	s := over(t, connect(t, dsn))
	execute(t, admin, "ALTER TABLE stet_records MODIFY `route` VARBINARY(200) NOT NULL")
	neighbours(t, s, func(round int) error {
		r := named(fmt.Sprint("long-", round))
		r.Route = strings.Repeat("r", 201)
		_, err := s.Create(within(t, 30*time.Second), r)
		if !errors.Is(err, stet.ErrRefused) {
			t.Errorf("a value that is too long for its column: %v, want ErrRefused", err)
		}
		return err
	})
}

// A limit of the driver's own, below the server's: a group that is larger is taken apart (B02).
func TestGroupsBeyondTheDriversLimit(t *testing.T) {
	t.Parallel()
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	migrated(t, dsn)
	s := over(t, connect(t, dsn+"?maxAllowedPacket=65536"))
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			for n := range 3 {
				r := named(fmt.Sprint(i, "-", n))
				r.Path = strings.Repeat("p", 8<<10)
				made, err := s.Create(within(t, 20*time.Second), r)
				if err != nil {
					t.Errorf("Create: %v", err)
					continue
				}
				h, body := completed(made, "x")
				if _, err := s.Replace(within(t, 20*time.Second), made.Version, h, body); err != nil {
					t.Errorf("Replace: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// Find shows the newest first, as List does, and the same each time (B07).
func TestFindIsInOrder(t *testing.T) {
	s, _ := open(t)
	for i := range stet.DefaultLimit + 10 {
		r := named(fmt.Sprint(i))
		switch i % 3 {
		case 0:
			r.DownstreamKey = "name"
		case 1:
			r.DownstreamID = "name"
		default:
			r.DownstreamKey, r.DownstreamID = "name", "name"
		}
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	listed, _, err := s.List(t.Context(), stet.Query{Limit: stet.DefaultLimit})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := stet.As[stet.Finder](s)
	found, err := f.Find(t.Context(), "", "name")
	if err != nil || len(found) != len(listed) {
		t.Fatalf("%d of %d were found, %v", len(found), len(listed), err)
	}
	for i := range found {
		if found[i].ID != listed[i].ID {
			t.Fatalf("place %d is another than in a list", i)
		}
	}
}
