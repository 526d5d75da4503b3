package stet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// room has place for some bytes, and notes what it was asked for.
type room struct {
	place int64
	asked []int64
}

var errFull = errors.New("there is no room")

func (r *room) Reserve(bytes int64) error {
	if r.asked = append(r.asked, bytes); bytes > r.place {
		return errFull
	}
	return nil
}

const large = 3 * stet.SmallBody

func leaving(key string) stet.Request {
	q := request(key)
	q.LeaveBody = true
	return q
}

// stored makes a record with a large answer.
func stored(t *testing.T, e *stet.Engine, key string) {
	t.Helper()
	if err := must(t, e, request(key), stet.Execute).Claim.Settle(t.Context(), result(strings.Repeat("x", large))); err != nil {
		t.Fatal(err)
	}
}

// A body is read for the answer that needs it, and for no other, when there is room.
func TestABodyIsReadWhenThereIsRoom(t *testing.T) { // C11
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		stored(t, e, "k")
		if d := must(t, e, request("k"), stet.Replay); d.Record.Left != 0 || len(d.Record.Response.Body) != large {
			t.Errorf("a request that does not leave it: %d bytes are left", d.Record.Left)
		}
		differs := leaving("k")
		differs.Subject.Body = []byte("2")
		before := s.count("get")
		must(t, e, differs, stet.Mismatch)
		d := must(t, e, leaving("k"), stet.Replay)
		if n := s.count("get") - before; n != 0 || d.Record.Response != nil || d.Record.Left < large || d.Record.Status != 201 {
			t.Errorf("%d reads, and %d bytes are left", n, d.Record.Left)
		}
		none := &room{}
		if got, err := e.ReadBody(t.Context(), d, none); err != errFull || got.Claim != nil || s.count("get") != before {
			t.Errorf("without room: %v, %d reads", err, s.count("get")-before)
		}
		enough := &room{place: d.Record.Left}
		got, err := e.ReadBody(t.Context(), d, enough)
		if err != nil || got.Verdict != stet.Replay || got.Record.Left != 0 || len(got.Record.Response.Body) != large || len(enough.asked) != 1 {
			t.Errorf("with room: %v, %v, asked for %v", got.Verdict, err, enough.asked)
		}
		small := leaving("small")
		if err := must(t, e, small, stet.Execute).Claim.Settle(t.Context(), result("ok")); err != nil {
			t.Fatal(err)
		}
		if d := must(t, e, small, stet.Replay); d.Record.Left != 0 || string(d.Record.Response.Body) != "ok" {
			t.Error("a small body is left")
		}
	})
}

// What has changed between head and body is judged again: no answer has a head of one record and
// the body of another.
func TestABodyIsOfTheRecordThatWasJudged(t *testing.T) { // C11, I9
	for name, c := range map[string]struct {
		change func(t *testing.T, s *fakeStore, e *stet.Engine)
		want   stet.Verdict
		body   int
	}{
		"another answer": {func(_ *testing.T, s *fakeStore, _ *stet.Engine) {
			s.change(request("k").ID, func(r *stet.Record) {
				r.Version, r.Response = 7, &stet.Response{Status: 202, Body: make([]byte, 2*large)}
			})
		}, stet.Replay, 2 * large},
		"a small answer": {func(_ *testing.T, s *fakeStore, _ *stet.Engine) {
			s.change(request("k").ID, func(r *stet.Record) { r.Version, r.Response = 7, &stet.Response{Status: 202, Body: []byte("now")} })
		}, stet.Replay, 3},
		"removed": {func(t *testing.T, s *fakeStore, _ *stet.Engine) {
			r, _ := s.read(request("k").ID)
			if err := s.Delete(t.Context(), r.ID, r.Version); err != nil {
				t.Fatal(err)
			}
		}, stet.InProgress, 0},
		"another life, of another request": {func(_ *testing.T, s *fakeStore, _ *stet.Engine) {
			s.change(request("k").ID, func(r *stet.Record) { r.Version = 7; r.Fingerprint.Sum[0]++ })
		}, stet.Mismatch, 0},
		"unknown again": {func(_ *testing.T, s *fakeStore, _ *stet.Engine) {
			s.change(request("k").ID, func(r *stet.Record) { r.Version, r.State = 7, stet.Unknown })
		}, stet.Unresolved, 0},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				stored(t, e, "k")
				d := must(t, e, leaving("k"), stet.Replay)
				c.change(t, s, e)
				got, err := e.ReadBody(t.Context(), d, &room{place: 1 << 30})
				if err != nil || got.Verdict != c.want {
					t.Fatalf("%v, %v; want %v", got.Verdict, err, c.want)
				}
				if c.body > 0 && (got.Record.Version != 7 || len(got.Record.Response.Body) != c.body) {
					t.Errorf("it has version %d and %d bytes", got.Record.Version, len(got.Record.Response.Body))
				}
			})
		})
	}
}

// What a run goes on with is read before it runs, or nothing runs.
func TestWhatARunGoesOnWithIsRead(t *testing.T) { // I1
	shelved(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		q := leaving("k")
		q.Point, q.Keep = "p", make([]byte, large)
		if d := must(t, e, q, stet.Execute); len(d.Record.Request) != large {
			t.Errorf("a new record has %d bytes", len(d.Record.Request))
		}
		after(stet.DefaultLease)
		s.before = func(verb string, n int) error {
			if verb == "get" {
				return errLost
			}
			return nil
		}
		if d, err := e.Begin(t.Context(), q); !errors.Is(err, stet.ErrUnread) || d.Claim != nil {
			t.Errorf("without its body: %v, %v", d.Verdict, err)
		}
		s.before = nil
		d := must(t, e, q, stet.Execute)
		if d.Record.Attempt != 2 || d.Record.Left != 0 || len(d.Claim.Stored().Request) != large {
			t.Errorf("attempt %d goes on with %d bytes", d.Record.Attempt, len(d.Claim.Stored().Request))
		}
	})
}

// Who waits for a run gets a large answer by reading it, when there is room.
func TestWaitersReadALargeAnswer(t *testing.T) { // W22, C11
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		var wg sync.WaitGroup
		for i := range 20 {
			q := request("k")
			q.LeaveBody = i%2 == 0
			d := must(t, e, q, stet.InProgress)
			wg.Go(func() {
				d, err := e.Await(t.Context(), d, time.Minute)
				if err != nil || d.Verdict != stet.Replay || (d.Record.Left > 0) != q.LeaveBody {
					t.Errorf("%v, %v, %d bytes are left", d.Verdict, err, d.Record.Left)
				}
				if d, err = e.ReadBody(t.Context(), d, &room{place: 1 << 30}); err != nil || len(d.Record.Response.Body) != large {
					t.Errorf("%v, %v", d.Verdict, err)
				}
			})
		}
		after(time.Second)
		if err := c.Settle(t.Context(), result(strings.Repeat("x", large))); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	})
}

// A store that cannot read the body of a record that is there is told apart from one that may have
// no record.
func TestABodyThatCannotBeRead(t *testing.T) { // SF-03
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		stored(t, e, "k")
		d := must(t, e, leaving("k"), stet.Replay)
		s.before = func(string, int) error { return errLost }
		if _, err := e.ReadBody(t.Context(), d, nil); !errors.Is(err, stet.ErrUnread) {
			t.Errorf("ReadBody: %v", err)
		}
		s.before = func(verb string, _ int) error {
			if verb == "get" {
				return errLost
			}
			return nil
		}
		if _, err := e.Begin(t.Context(), request("k")); !errors.Is(err, stet.ErrUnread) || !errors.Is(err, stet.ErrUnsettled) {
			t.Errorf("Begin: %v", err)
		}
		s.before = nil
		if got, err := e.Get(stet.WithMaxBody(t.Context(), large/2), request("k").ID); err != nil || got.Left < large {
			t.Errorf("Get with too little room: %d bytes are left, %v", got.Left, err)
		}
		if got, err := e.Get(t.Context(), request("k").ID); err != nil || got.Left != 0 || len(got.Response.Body) != large {
			t.Errorf("Get: %d bytes are left, %v", got.Left, err)
		}
	})
}

// slow is a store whose reads of large bodies wait until they may go on.
type slow struct {
	*fakeStore
	goOn      chan struct{}
	now, most atomic.Int64
	order     chan stet.Key
}

func (s *slow) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if n := stet.MaxBody(ctx); n > stet.SmallBody {
		s.most.Store(max(s.most.Load(), s.now.Add(n)))
		defer s.now.Add(-n)
		s.order <- id.Key
		<-s.goOn
	}
	return s.fakeStore.Get(ctx, id)
}

// Large bodies are read 16 MiB at a time, in the order in which they were asked for; one that is
// larger is read by itself, and a reader that goes away leaves its place.
func TestLargeBodiesAreReadInTurn(t *testing.T) { // C11
	synctest.Test(t, func(t *testing.T) {
		s := &slow{fakeStore: &fakeStore{}, goOn: make(chan struct{}), order: make(chan stet.Key, 20)}
		e, err := stet.New(s, stet.Config{StoreTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		sizes := []int{6 << 20, 6 << 20, 30 << 20, 1 << 20, 6 << 20}
		decisions := make([]stet.Decision, len(sizes))
		for i, n := range sizes {
			key := fmt.Sprint(i)
			if err := must(t, e, request(key), stet.Execute).Claim.Settle(t.Context(), result(strings.Repeat("x", n))); err != nil {
				t.Fatal(err)
			}
			decisions[i] = must(t, e, leaving(key), stet.Replay)
		}
		var wg sync.WaitGroup
		for i, d := range decisions {
			wg.Go(func() {
				if d, err := e.ReadBody(t.Context(), d, nil); err != nil || len(d.Record.Response.Body) != sizes[i] {
					t.Errorf("%d: %v", i, err)
				}
			})
			synctest.Wait() // so that they come in this order
		}
		after(time.Second)
		if n := len(s.order); n != 2 {
			t.Errorf("%d are read at once", n)
		}
		close(s.goOn)
		wg.Wait()
		for i := range sizes[:3] {
			if got := <-s.order; got != stet.Key(fmt.Sprint(i)) && i == 2 {
				t.Errorf("reader %s came before its turn", got)
			}
		}
		if most := s.most.Load(); most < 30<<20 || most > 31<<20 {
			t.Errorf("%d bytes were read at a time", most)
		}
	})
}

// A reader whose time ends while it waits for its turn reads nothing, and keeps no other one
// waiting.
func TestAReaderGoesAway(t *testing.T) { // C11
	synctest.Test(t, func(t *testing.T) {
		s := &slow{fakeStore: &fakeStore{}, goOn: make(chan struct{}), order: make(chan stet.Key, 20)}
		e, err := stet.New(s, stet.Config{StoreTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", 12<<20)
		var d stet.Decision
		if err := must(t, e, request("k"), stet.Execute).Claim.Settle(t.Context(), result(body)); err != nil {
			t.Fatal(err)
		}
		d = must(t, e, leaving("k"), stet.Replay)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = e.ReadBody(t.Context(), d, nil) })
		synctest.Wait()
		if _, err := e.ReadBody(t.Context(), d, nil); !errors.Is(err, stet.ErrUnread) || !errors.Is(err, stet.ErrBusy) {
			t.Errorf("a reader whose turn did not come: %v", err)
		}
		close(s.goOn)
		wg.Wait()
		if got, err := e.ReadBody(t.Context(), d, nil); err != nil || len(got.Record.Response.Body) != len(body) {
			t.Errorf("then: %v", err)
		}
	})
}

// A turn that comes in the instant in which its reader goes away is given back.
func TestATurnThatComesTooLate(t *testing.T) { // C11
	var line stet.Reading
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // either answer is right
		if line.Enter(gone, stet.MaxReading) == nil {
			line.Leave(stet.MaxReading)
		}
	}
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := line.Enter(within, stet.MaxReading); err != nil {
		t.Errorf("the turns of readers that went away are still taken: %v", err)
	}
}
