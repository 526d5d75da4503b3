package figures_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/figures"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// BenchmarkMiddleware measures what a board adds to the middleware over memstore, for a new key and
// for a replay of 1 KiB: beside an observer that does nothing, with requests interleaved. The ratio
// is what counts.
func BenchmarkMiddleware(b *testing.B) {
	const slice = 200
	var took [2][2]time.Duration // by observer, and by new and replay
	board := figures.New(figures.Config{})
	var guards [2]*exchange
	for i, observe := range []func(stet.Event){func(stet.Event) {}, board.Observe} {
		e, err := stet.New(memstore.New(memstore.Config{MaxKeys: 100 << 20}), stet.Config{Observe: observe})
		if err != nil {
			b.Fatal(err)
		}
		guards[i] = newExchange(stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{Fingerprint: stet.Recipe{Body: stet.BodyRaw}})(charge))
		guards[i].ask("known-0000-0000-0000-000000000000")
	}
	for n := 0; b.Loop(); n++ {
		for k := range guards {
			i := (k + n) % len(guards) // none is always the first
			began := time.Now()
			for j := range slice {
				guards[i].ask(strconv.FormatInt(int64(n*slice+j), 36) + "-8e03978e-40d5-43e8-bc93")
			}
			middle := time.Now()
			for range slice {
				guards[i].ask("known-0000-0000-0000-000000000000")
			}
			took[i][0] += middle.Sub(began)
			took[i][1] += time.Since(middle)
		}
	}
	total := float64(b.N * slice)
	for j, what := range []string{"new", "replay"} {
		b.ReportMetric(float64(took[0][j])/total, "ns/"+what)
		b.ReportMetric(float64(took[1][j])/float64(took[0][j]), "ratio/"+what)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkObserve measures an event, from all processors at once.
func BenchmarkObserve(b *testing.B) {
	board := figures.New(figures.Config{})
	e := stet.Event{Kind: stet.Answer, Route: "POST /v1/charges", Result: "replay", ID: stet.ID{Scope: "acme", Key: "k"}}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			board.Observe(e)
		}
	})
}

// An event of a route that is known costs no memory.
func TestObserveAllocatesNothing(t *testing.T) {
	board := figures.New(figures.Config{})
	answer := stet.Event{Kind: stet.Answer, Route: "POST /v1/charges", Result: "new", ID: stet.ID{Scope: "acme", Key: "k"}}
	called := stet.Event{Kind: stet.StoreCall, Op: "create", Took: time.Millisecond}
	unknown := answer
	unknown.Result = "unknown"
	for _, e := range []stet.Event{answer, called, unknown} {
		board.Observe(e)
		if n := testing.AllocsPerRun(1000, func() { board.Observe(e) }); n > 0 {
			t.Errorf("%d %s: %v allocations", e.Kind, e.Result, n)
		}
	}
}

// exchange is a request without a connection.
type exchange struct {
	h      http.Handler
	r      *http.Request
	out    http.Header
	reader bytes.Reader
	body   []byte
}

func newExchange(h http.Handler) *exchange {
	x := &exchange{h: h, out: http.Header{}, body: bytes.Repeat([]byte("0123456789abcdef"), 64)}
	x.r = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/v1/charges"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(x.body)), Host: "api.example",
		Body: io.NopCloser(&x.reader)}
	return x
}

func (x *exchange) ask(key string) {
	x.reader.Reset(x.body)
	clear(x.out)
	x.r.Header["Idempotency-Key"] = []string{key}
	x.h.ServeHTTP(x, x.r)
}

func (x *exchange) Header() http.Header         { return x.out }
func (x *exchange) WriteHeader(int)             {}
func (x *exchange) Write(p []byte) (int, error) { return len(p), nil }

var charge = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(bytes.Repeat([]byte("0123456789"), 20))
})
