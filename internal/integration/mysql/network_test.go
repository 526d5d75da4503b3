package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
)

// The server is killed while many write, and comes back: what was acknowledged is there, nothing is
// there by half, and the store goes on without being opened again (I5, W28).
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := testserver.NewMariaDB(t)
	s := over(t, migrated(t, fresh(t, server.Addr)))
	var acknowledged sync.Map // of versions by number
	var n, failed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := n.Add(1)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				r, err := s.Create(ctx, named(fmt.Sprint(i)))
				if err == nil {
					h, body := completed(r, fmt.Sprint(i))
					if _, err = s.Replace(ctx, r.Version, h, body); err == nil {
						acknowledged.Store(i, h.Version)
					}
				}
				cancel()
				if err != nil {
					failed.Add(1)
					pause := time.NewTimer(5 * time.Millisecond)
					<-pause.C
				}
			}
		})
	}
	for range 2 {
		at := n.Load()
		eventually(t, "writes", func() bool { return n.Load() > at+200 })
		server.Kill(t)
		eventually(t, "failures", func() bool { return failed.Load() > 0 })
		server.Start(t)
		failed.Store(0)
	}
	at := n.Load()
	eventually(t, "writes after the last start", func() bool { return n.Load() > at+200 })
	close(stop)
	wg.Wait()
	read := func(i any) (got stet.Record, err error) { // a connection may still be one to the server before, which is no loss
		eventually(t, "an answer", func() bool {
			got, err = s.Get(t.Context(), named(fmt.Sprint(i)).ID)
			return err == nil || errors.Is(err, stet.ErrNotFound)
		})
		return got, err
	}
	count := 0
	acknowledged.Range(func(i, version any) bool {
		count++
		got, err := read(i)
		if err != nil || got.Version != version || got.State != stet.Completed || string(got.Response.Body) != fmt.Sprint(i) {
			t.Errorf("record %d was acknowledged, and is %v (%v)", i, got.State, err)
		}
		return true
	})
	t.Logf("%d of %d were acknowledged", count, n.Load())
	for i := range n.Load() {
		got, err := read(i)
		if err == nil && (got.State == stet.Completed) != (got.Response != nil) {
			t.Errorf("record %d is there by half: %v (%v)", i, got.State, err)
		}
	}
}

// A server that stands still: every call ends by its own deadline, also that of who began a group,
// and when the server goes on, so does the store.
func TestServerStandsStill(t *testing.T) {
	t.Parallel()
	server := testserver.NewMariaDB(t)
	s := over(t, migrated(t, fresh(t, server.Addr)))
	made := create(t, s, "before")
	server.Pause(t)
	const patience = 250 * time.Millisecond
	var wg sync.WaitGroup
	records := make([]stet.Record, 40)
	for i := range records {
		records[i] = named(fmt.Sprint(i))
		wg.Go(func() {
			began := time.Now()
			allowed := patience + time.Duration(i)*10*time.Millisecond
			if i == 20 { // whose group is still under way when the others have gone
				allowed = 8 * patience
			}
			ctx := within(t, allowed)
			var err error
			switch i % 4 {
			case 0, 1:
				_, err = s.Create(ctx, records[i])
			case 2:
				h, body := completed(made, "x")
				_, err = s.Replace(ctx, made.Version, h, body)
			case 3:
				_, err = s.Get(ctx, made.ID)
			}
			if err == nil {
				t.Errorf("call %d has an answer", i)
			}
			tier.Took(t, fmt.Sprint("call ", i), time.Since(began), allowed+1500*time.Millisecond)
		})
	}
	wg.Wait()
	server.Resume(t)
	for i, r := range records {
		if i%4 > 1 {
			continue
		}
		got, err := s.Create(within(t, 30*time.Second), r) // sent again, as its writer does
		if err != nil && (!errors.Is(err, stet.ErrExists) || got.Version != r.Version) {
			t.Errorf("record %d, sent again: %v", i, err)
		}
	}
}

// A reply that is lost: the write, sent again, meets itself (W2, W34).
func TestRepliesLost(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	dsn := fresh(t, server.Addr)
	migrated(t, dsn)
	p := newProxy(t, server.Addr)
	s := over(t, connect(t, "root@tcp("+p.addr+")"+dsn[len("root@tcp(")+len(server.Addr)+1:]))
	warm := func(key string) { // the statements are known to the server: their next use is one message
		h, body := completed(create(t, s, key), "warm")
		if _, err := s.Replace(t.Context(), stet.Version(h.Fence()), h, body); !errors.Is(err, stet.ErrStale) {
			t.Fatal(err)
		}
	}
	deaf := func(f func(ctx context.Context) error) {
		t.Helper()
		p.deaf.Store(true)
		defer p.deaf.Store(false)
		if err := f(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("an answer came through: %v", err)
		}
	}
	warm("1")
	first := named("k")
	deaf(func(ctx context.Context) error { _, err := s.Create(ctx, first); return err })
	got, err := s.Create(t.Context(), first)
	if !errors.Is(err, stet.ErrExists) || got.Version != first.Version {
		t.Fatalf("sent again: %v, of another version", err)
	}
	warm("2")
	h, body := completed(got, "answer")
	deaf(func(ctx context.Context) error { _, err := s.Replace(ctx, got.Version, h, body); return err })
	if there, err := s.Replace(t.Context(), got.Version, h, body); !errors.Is(err, stet.ErrStale) || there.Version != h.Version {
		t.Fatalf("sent again: %v, of another version", err)
	}
	warm("3")
	deaf(func(ctx context.Context) error { return s.Delete(ctx, got.ID, h.Version) })
	eventually(t, "deletion", func() bool { // its statement may not have been known
		err := s.Delete(t.Context(), got.ID, h.Version)
		return err == nil || errors.Is(err, stet.ErrNotFound)
	})
}

// A connection that was cut while it was idle is not found out by a write: what came of that
// write would be uncertain.
func TestIdleConnectionsCut(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	dsn := fresh(t, server.Addr)
	migrated(t, dsn)
	p := newProxy(t, server.Addr)
	s := over(t, connect(t, "root@tcp("+p.addr+")"+dsn[len("root@tcp(")+len(server.Addr)+1:]))
	create(t, s, "warm")
	p.cut()
	rest := time.NewTimer(1100 * time.Millisecond) // longer than connections are trusted for
	<-rest.C
	create(t, s, "after")
}

// What a store has started ends with it.
func TestNothingIsLeftRunning(t *testing.T) {
	server := testserver.MariaDB(t)
	dsn := fresh(t, server.Addr)
	before := goleak.IgnoreCurrent()
	t.Run("used", func(t *testing.T) {
		s := over(t, migrated(t, dsn))
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { create(t, s, fmt.Sprint(i)) })
		}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Create(t.Context(), sample()); err == nil {
			t.Error("a closed store creates")
		}
	})
	goleak.VerifyNone(t, before)
}

// A table that cannot grow: ErrFull, which says that nothing was stored; what is stored can be
// read.
func TestFull(t *testing.T) {
	t.Parallel()
	server := testserver.NewMariaDB(t, "--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M;more:8M")
	s := over(t, migrated(t, fresh(t, server.Addr)))
	big := make([]byte, 200<<10)
	var last stet.Record
	full := 0
	for i := 0; i < 400 && full < 3; i++ {
		r := named(fmt.Sprint(i))
		r.Request = big
		got, err := s.Create(within(t, 20*time.Second), r)
		switch {
		case err == nil:
			last = got
		case errors.Is(err, stet.ErrFull):
			full++
			if _, err := s.Get(t.Context(), r.ID); !errors.Is(err, stet.ErrNotFound) {
				t.Errorf("it was stored: %v", err)
			}
		default:
			t.Fatal(err)
		}
	}
	if full == 0 {
		t.Fatal("the server is never full")
	}
	if got, err := s.Get(t.Context(), last.ID); err != nil || len(got.Request) != len(big) {
		t.Errorf("what was stored: %v", err)
	}
}

// proxy stands between a client and a server.
type proxy struct {
	addr string
	deaf atomic.Bool // what the server says is lost
	mu   sync.Mutex
	open []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); p.cut(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, client, server)
			p.mu.Unlock()
			wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			wg.Go(func() { _, _ = io.Copy(hearing{client, p}, server); _ = client.Close() })
		}
	})
	return p
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

type hearing struct {
	io.Writer
	p *proxy
}

func (h hearing) Write(b []byte) (int, error) {
	if h.p.deaf.Load() {
		return len(b), nil
	}
	return h.Writer.Write(b)
}
