package recipes

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// What the handlers of every framework do, by path. Each counts one effect.
const (
	charge   = "/charge"   // 201 with a header and a body
	declined = "/declined" // an error returned, or whatever the framework has for it: 402
	busy     = "/busy"     // the same with 429, which says that nothing happened
	released = "/released" // 503, and the claim says that nothing happened
	silent   = "/silent"   // returns without an answer
	status   = "/status"   // 204 alone
	panics   = "/panics"
	slow     = "/slow"    // works until its context ends, and answers then
	dropped  = "/dropped" // closes the connection in the place of an answer
	aborted  = "/aborted" // the framework's way to stop here: 402 alone

	// What the framework does without a handler: middleware before the guard sets 202, where it can,
	// and a handler says nothing; there is no such path; it is there for GET alone.
	accepted = "/accepted"
	nowhere  = "/nowhere"
	reading  = "/reading"
)

// service counts effects, and holds the guard's engine and what it told.
type service struct {
	engine *stet.Engine

	mu      sync.Mutex
	effects map[string]int
	events  []stet.Event
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{effects: map[string]int{}}
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Observe: func(e stet.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.engine = engine
	return s
}

func (s *service) guard() func(http.Handler) http.Handler { return s.guardWith(stethttp.Config{}) }

func (s *service) guardWith(c stethttp.Config) func(http.Handler) http.Handler {
	return stethttp.Middleware(s.engine, stethttp.HeaderScope("X-Tenant"), c)
}

// effect is what must happen once. It returns the id of what it made.
func (s *service) effect(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects[path]++
	return fmt.Sprintf("ch_%d", s.effects[path])
}

func (s *service) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[path]
}

func (s *service) miswired() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == stet.Miswired && e.Cause == stethttp.CauseElsewhere {
			n++
		}
	}
	return n
}

func (s *service) state(t *testing.T, key string) stet.State {
	t.Helper()
	r, err := s.engine.Get(t.Context(), stet.ID{Scope: "acme", Key: stet.Key(key)})
	if err != nil {
		t.Fatal(err)
	}
	return r.State
}

// framework is an app of one framework with the handlers above. Without a guard it is the app as it
// would be without the layer.
type framework struct {
	name  string
	serve func(t *testing.T, s *service, guard func(http.Handler) http.Handler) (url string)
}

var frameworks = []framework{
	{"gin", ginApp}, {"echo", echoApp}, {"echo5", echo5App}, {"fiber", fiberServed}, {"fiber behind net/http", fiberMounted},
	{"chi", chiApp}, {"gorilla", gorillaApp}, {"connect", connectApp},
}

// outer is a header that middleware before the guard sets, to another value for each answer.
const outer = "X-Answer"

var answers atomic.Int64

// served runs a handler of net/http on a socket.
func served(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(outer, strconv.FormatInt(answers.Add(1), 10))
		h.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// answer is what a client gets; an error where the connection was cut.
type answer struct {
	status int
	header http.Header
	body   string
	err    bool
}

// client makes a connection for each request: net/http sends a keyed request again by itself where
// one that it used before breaks.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func post(t *testing.T, url, key string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Tenant", "acme")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := client.Do(r)
	if err != nil {
		return answer{err: true}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// text is the answer without what belongs to one message or to the layer.
func (a answer) text() string {
	if a.err {
		return "cut off"
	}
	h := a.header.Clone()
	for _, name := range []string{"Date", "Connection", "Server", outer,
		"Idempotency-Key", "Idempotency-Expires", "Idempotent-Replayed", "Idempotent-Replay"} {
		h.Del(name)
	}
	if a.body == "" { // the default of fasthttp, which says it of bodies alone
		h.Del("Content-Type")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.status)
	_ = h.Write(&b)
	return b.String() + "\n" + a.body
}

func (a answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// C09: behind each bridge the first answer is the one the framework gives without the layer, and a
// retry gets it again.
func TestRecipes(t *testing.T) {
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) {
			without, s := newService(t), newService(t)
			bare, url := f.serve(t, without, nil), f.serve(t, s, s.guard())
			for i, c := range []struct {
				path     string
				failure  int  // status that shows that the framework's error handling has answered
				effects  int  // of two requests
				replayed bool // the second is
			}{
				{charge, 0, 1, true},
				{declined, 402, 1, true},
				{busy, 429, 2, false},
				{released, 503, 2, false},
				{silent, 0, 1, true},
				{status, 0, 1, true},
				{aborted, 402, 1, true},
				{accepted, 0, 1, true},
				{nowhere, 0, 0, true}, // H01
				{reading, 0, 0, true}, // H01
			} {
				t.Run(c.path[1:], func(t *testing.T) {
					key := fmt.Sprintf("5f1c2ab0-7d10-4f5e-%04d", i)
					want := post(t, bare+c.path, "")
					want.header.Del("Stet-Outcome") // it is the guard's
					first := post(t, url+c.path, key)
					second := post(t, url+c.path, key)
					if c.failure != 0 && first.status != c.failure && (f.name != "connect" || c.failure != 402 || first.status != 400) {
						t.Errorf("the error became a %d, want %d", first.status, c.failure)
					}
					if first.text() != want.text() || first.replayed() {
						t.Errorf("the first answer is\n%s\nwithout the layer it is\n%s", first.text(), want.text())
					}
					replayed := c.replayed && (c.path != nowhere && c.path != reading || f.name != "gorilla" && f.name != "connect") // they guard routes
					if c.replayed && second.text() != first.text() || second.replayed() != replayed {
						t.Errorf("the first answer was\n%s\nthe second is (replayed: %t)\n%s", first.text(), second.replayed(), second.text())
					}
					if a, b := first.header[outer], second.header[outer]; len(a) != 1 || len(b) != 1 || a[0] == b[0] {
						t.Errorf("what middleware before the guard says of each answer is %q, then %q", a, b)
					}
					if n := s.count(c.path); n != c.effects {
						t.Errorf("%d effects, want %d", n, c.effects)
					}
				})
			}
			for i, path := range []string{panics, dropped} {
				t.Run(path[1:], func(t *testing.T) {
					key := fmt.Sprintf("5f1c2ab0-7d10-4f5e-999%d", i)
					want, first := post(t, bare+path, ""), post(t, url+path, key)
					for end := time.Now().Add(time.Minute); s.state(t, key) == stet.Running && time.Now().Before(end); { // a connection is cut at once
						runtime.Gosched()
					}
					second := post(t, url+path, key)
					if first.text() != want.text() {
						t.Errorf("the first answer is\n%s\nwithout the layer it is\n%s", first.text(), want.text())
					}
					if second.status != 409 || !strings.Contains(second.body, "outcome-unknown") || s.state(t, key) != stet.Unknown {
						t.Errorf("the record is %s, and the second answer\n%s", s.state(t, key), second.text())
					}
					if n := s.count(path); n != 1 {
						t.Errorf("%d effects", n)
					}
				})
			}
			t.Run("at once", func(t *testing.T) { atOnce(t, s, url+charge) })
			if n := s.miswired(); n != 0 {
				t.Errorf("%d times the guard was said to be wired wrongly", n)
			}
		})
	}
}

// A run that takes too long ends behind each bridge: its context does, and the guard answers while
// the handler still holds the framework's writer.
func TestTooSlow(t *testing.T) {
	for _, f := range frameworks {
		if f.name == "fiber behind net/http" { // the context does not get there
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			s := newService(t)
			url := f.serve(t, s, s.guardWith(stethttp.Config{Policy: stet.Policy{Execution: 50 * time.Millisecond}}))
			const key = "5f1c2ab0-7d10-4f5e"
			first, second := post(t, url+slow, key), post(t, url+slow, key)
			if first.status != 504 || !strings.Contains(first.body, "execution-timeout") || second.status != 409 {
				t.Errorf("the answers are\n%s\nand\n%s", first.text(), second.text())
			}
			if n := s.count(slow); n != 1 || s.miswired() != 0 {
				t.Errorf("%d effects, and %d times the wiring was said to be wrong", n, s.miswired())
			}
		})
	}
}

// atOnce sends several keys many times at once: fasthttp uses the memory of one request for the
// next.
func atOnce(t *testing.T, s *service, url string) {
	before := s.count(charge)
	var wg sync.WaitGroup
	for i := range 8 {
		for range 4 {
			wg.Go(func() {
				if a := post(t, url, fmt.Sprintf("at-once-4d1f-9e77-%d", i)); a.status/100 != 2 && a.status != 409 {
					t.Errorf("%s", a.text())
				}
			})
		}
	}
	wg.Wait()
	if n := s.count(charge) - before; n != 8 {
		t.Errorf("%d effects of 8 keys", n)
	}
	for i := range 8 {
		if a := post(t, url, fmt.Sprintf("at-once-4d1f-9e77-%d", i)); !a.replayed() {
			t.Errorf("key %d is not replayed:\n%s", i, a.text())
		}
	}
}
