package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// slowList is a store whose lists take a while, and are counted.
type slowList struct {
	*memstore.Store
	listed, now, most atomic.Int32
}

func (s *slowList) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	s.listed.Add(1)
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	return s.Store.List(ctx, q)
}

func slowWard(t *testing.T, c admin.Config) (*ward, *slowList) {
	s := &slowList{Store: memstore.New(memstore.Config{})}
	e := must(stet.New(s, stet.Config{Pepper: []byte("pepper"), Holder: "host:1", StoreTimeout: 5 * time.Second}))
	return &ward{T: t, engine: e, Handler: admin.New(e, c)}, s
}

func (w *ward) waiting() int {
	var s operate.Status
	w.ask("GET", "/api/v1/status", "", 200, &s)
	return s.Waiting
}

// Many pages that refresh themselves are one reading of the store a second, or a twentieth of the
// time; a change is seen at once by those who ask after it, and what others change after that.
func TestAReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := slowWard(t, admin.Config{})
		c := w.unknown("s", "k0", "", "panic")
		var pages sync.WaitGroup
		for range 20 {
			pages.Go(func() {
				if n := w.waiting(); n != 1 {
					t.Errorf("%d wait", n)
				}
			})
		}
		pages.Wait()
		if n := s.listed.Load(); n != 1 {
			t.Errorf("%d lists for 20 pages", n)
		}
		w.unknown("s", "k1", "", "panic")
		if n := w.waiting(); n != 1 || s.listed.Load() != 1 {
			t.Errorf("within the second %d wait, after %d lists", n, s.listed.Load())
		}
		w.ask("POST", "/api/v1/keys/"+string(c.ID().Scope)+"/"+string(c.ID().Key)+"/snooze", `{"for_s":60,"reason":"x"}`, 200, nil)
		if n := w.waiting(); n != 1 || s.listed.Load() != 2 {
			t.Errorf("after a change %d wait, after %d lists", n, s.listed.Load())
		}
		w.unknown("s", "k2", "", "panic")
		time.Sleep(time.Second)
		if n := w.waiting(); n != 1 || s.listed.Load() != 2 {
			t.Errorf("within 20 times what a reading takes %d wait, after %d lists", n, s.listed.Load())
		}
		time.Sleep(time.Second)
		if n := w.waiting(); n != 2 {
			t.Errorf("after two seconds %d wait", n)
		}
	})
}

// Where thousands are unknown, a reading is shared for longer: 2 ms for each.
func TestAReadingOfManyIsSharedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := slowWard(t, admin.Config{})
		for i := range 4000 {
			w.unknown("s", fmt.Sprint(i), "", "panic")
		}
		began := time.Now()
		w.waiting()
		w.unknown("s", "one more", "", "panic")
		time.Sleep(time.Until(began.Add(8*time.Second - 1)))
		if n := w.waiting(); n != 4000 {
			t.Errorf("within eight seconds %d wait", n)
		}
		time.Sleep(time.Until(began.Add(8 * time.Second)))
		if n := w.waiting(); n != 4001 {
			t.Errorf("after eight seconds %d wait", n)
		}
	})
}

// A reading belongs to the scopes and the filter that were asked for.
func TestReadingsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := admin.NewToken("one", "one-token", operate.Viewer)
		one.Scopes = []string{"t1", "t3"}
		all := admin.NewToken("all", "all-token", operate.Viewer)
		w, _ := slowWard(t, admin.Config{Tokens: []admin.Token{one, all}})
		w.unknown("t1", "k", "/a", "panic")
		w.unknown("t2", "k", "/a", "panic")
		w.unknown("t2", "l", "/b", "panic")
		for _, c := range []struct {
			token, query string
			want         int
		}{{"all-token", "", 3}, {"one-token", "", 1}, {"all-token", "?scope=t2", 2}, {"all-token", "?route=/a", 2}, {"all-token", "?with=ann", 0}} {
			w.token = c.token
			var got incidents
			n := 0
			w.ask("GET", "/api/v1/incidents"+c.query, "", 200, &got)
			for _, in := range got.Incidents {
				n += in.Count
			}
			if n != c.want {
				t.Errorf("%s %q: %d records, want %d", c.token, c.query, n, c.want)
			}
		}
	})
}

// A client that leaves does not spoil the reading for those who wait for it.
func TestAReadingOutlivesItsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := slowWard(t, admin.Config{})
		w.unknown("s", "k", "", "panic")
		gone, leave := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			r := httptest.NewRequestWithContext(gone, "GET", "http://localhost/api/v1/incidents", nil)
			r.RemoteAddr = "127.0.0.1:9"
			w.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		both.Go(func() {
			if n := w.waiting(); n != 1 {
				t.Errorf("%d wait", n)
			}
		})
		synctest.Wait()
		leave()
		both.Wait()
		if n := s.listed.Load(); n != 1 {
			t.Errorf("%d lists", n)
		}
	})
}

// A provider's notice changes what pages show, also where one was read while the notice was taken.
func TestANoticeRefreshesPages(t *testing.T) { // Y15
	synctest.Test(t, func(t *testing.T) {
		var w *ward
		notice := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if n := w.waiting(); n != 1 {
				t.Errorf("before it is taken %d wait", n)
			}
			n := stet.Note{Who: "tests", Why: "the provider says so"}
			_, err := w.engine.Operator().Resolve(t.Context(), stet.ID{Scope: "t1", Key: "a"}, stet.Execution{Version: w.head(stet.ID{Scope: "t1", Key: "a"}).Version},
				stet.Resolution{Response: &stet.Response{Status: 201}}, n)
			if err != nil {
				t.Error(err)
			}
		})
		w, _ = slowWard(t, admin.Config{Webhook: notice})
		w.unknown("t1", "a", "", "panic")
		w.ask("POST", "/hooks/reconcile", "{}", 200, nil)
		if n := w.waiting(); n != 0 {
			t.Errorf("afterwards %d wait", n)
		}
	})
}

// While a person types, only indexes are asked; the records are walked for one search at a time.
func TestOneSearchWalksAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := slowWard(t, admin.Config{})
		w.unknown("t1", "order-1", "", "panic")
		var quick operate.Search
		if w.ask("GET", "/api/v1/find?q=order-1&quick=1", "", 200, &quick); len(quick.Found) != 0 || !quick.More || s.listed.Load() != 0 {
			t.Errorf("%+v after %d lists", quick, s.listed.Load())
		}
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				var got operate.Search
				w.ask("GET", fmt.Sprintf("/api/v1/find?q=order-%d", i), "", 200, &got)
				if want := map[int]int{1: 1}[i]; len(got.Found) != want {
					t.Errorf("order-%d: %+v", i, got)
				}
			})
		}
		all.Wait()
		if n := s.most.Load(); n != 1 {
			t.Errorf("%d lists at a time", n)
		}
	})
}
