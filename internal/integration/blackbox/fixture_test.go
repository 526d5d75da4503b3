package blackbox

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// bare is a Server without any layer: a handler, and the fixture it may have behind it.
type bare struct {
	url string
	fx  *Fixture
}

func (b *bare) URL(int) string                       { return b.url }
func (b *bare) Fixture() *Fixture                    { return b.fx }
func (b *bare) Faults(int) Faults                    { panic("a bare server has no store") }
func (b *bare) Records(string) ([]Record, error)     { return nil, nil }
func (b *bare) Metrics() (map[string]float64, error) { return nil, errNoMetrics }
func (b *bare) Kill(int)                             {}
func (b *bare) Start(int, string)                    {}
func (b *bare) Pause(int)                            {}
func (b *bare) Continue(int)                         {}
func (b *bare) Log() string                          { return "" }

// newBare is a case at a server that answers with h; the fixture by itself if h is nil.
func newBare(t testing.TB, h http.Handler) *C {
	fx := NewFixture()
	if h == nil {
		h = fx
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers panic on purpose
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(fx.Close)
	target := Target{Name: "bare", Open: func(testing.TB, Spec) (Server, error) { return &bare{s.URL, fx}, nil }}
	return newC(t, Case{ID: t.Name()}, newPool(t, target))
}

// The fixture has to answer as its table says when nothing stands before it: otherwise a case would
// test the fixture.
func TestFixtureAnswers(t *testing.T) {
	c := newBare(t, nil)
	for _, row := range []struct {
		path   string
		status int
		body   string // "" if the row does not care
	}{
		{"/fx/json", 201, ""},
		{"/fx/a%2Fb", 201, ""},
		{"/fx/echo", 201, `{"a":1}`},
		{"/fx/status/404", 404, "status:404"},
		{"/fx/status/204", 204, ""},
		{"/fx/status/299", 299, "status:299"},
		{"/fx/slow?ms=1", 201, ""},
		{"/fx/large?bytes=20", 201, "0000000 0000001 0000"},
		{"/fx/bin", 201, ""},
		{"/fx/gzip", 201, ""},
		{"/fx/sse", 200, "data: 0\n\ndata: 1\n\ndata: 2\n\n"},
		{"/fx/chunked", 201, "piece 0\npiece 1\npiece 2\n"},
		{"/fx/copy", 201, strings.Repeat("0", 100_000)},
		{"/fx/trailer", 201, "with trailers"},
		{"/fx/early-hints", 201, ""},
		{"/fx/headers", 201, ""},
		{"/fx/hop", 201, "hop"},
		{"/fx/sniff", 200, ""},
		{"/fx/empty", 200, ""},
		{"/fx/seen", 201, ""},
		{"/fx/unread", 201, "unread"},
		{"/fx/controller", 201, "read:<nil> write:<nil> after"},
		{"/fx/outcome/not-executed", 503, "status:503"},
		{"/fx/outcome/completed", 201, "status:201"},
	} {
		a := c.Named(row.path).POST(row.path).Is(row.status)
		if row.body != "" {
			a.Says(row.body)
		}
	}
	for _, path := range []string{"/fx/panic?when=after", "/fx/abort", "/fx/goexit", "/fx/drop", "/fx/truncate?how=length", "/fx/truncate?how=chunk"} {
		d := c.Named(path)
		d.POST(path).Broken()
		d.Effects(1)
	}
	c.POST("/fx/early-hints").Is(201).Lacks("X-Hint").Has("X-Final", "201")
	if a := c.POST("/fx/trailer").Is(201); a.Trailer.Get("X-T") != "announced" || a.Trailer.Get("X-U") != "unannounced" {
		t.Errorf("trailers: %v", a.Trailer)
	}
	if a := c.POST("/fx/early-hints"); len(a.Interim) != 1 || a.Interim[0].Status != 103 {
		t.Errorf("interim responses: %+v", a.Interim)
	}
}

func TestFixtureScript(t *testing.T) {
	c := newBare(t, nil)
	for _, want := range []int{503, 403, 201, 201} {
		c.POST("/fx/script/503,403,201").Is(want)
	}
	c.Effects(4)
	c.Do("GET", "/fx/count").Is(200).Says("4")
}

func TestFixtureHangs(t *testing.T) {
	c := newBare(t, nil)
	p := c.Begun("POST", "/fx/hang")
	c.Effects(1)
	if p.Over() {
		t.Fatal("it did not hang")
	}
	c.Release(1)
	p.Wait().Is(201)
	c.Left(1)
}

// A handler that obeys its context ends with it.
func TestFixtureObeys(t *testing.T) {
	c := newBare(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	p := c.Begun("POST", "/fx/hang?obey", within(ctx))
	cancel()
	p.Wait().Broken()
	c.Left(1)
}

func TestFixtureUpgrades(t *testing.T) {
	c := newBare(t, nil)
	n := c.Dial()
	n.Write("%s", c.head("POST /fx/upgrade HTTP/1.1", "Connection: Upgrade", "Upgrade: line"))
	if a := n.Read(); a.Status != 101 {
		t.Fatalf("%v", a)
	}
	n.Write("hello\n")
	if got, err := n.in.ReadString('\n'); got != "got hello\n" {
		t.Fatalf("%q, %v", got, err)
	}
}

// Paths, header lines and framing have to reach the server as the case wrote them.
func TestRequestsArriveAsWritten(t *testing.T) {
	var got *http.Request
	c := newBare(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got = r
	}))
	c.POST("/fx//a%2Fb/../c?x=%7e&y", key(`"a"`, `"b"`), header("X-Lines", "1", "2"), as("t:u:n"), chunked, trailing("X-T", "v")).Is(200)
	switch {
	case got.RequestURI != "/fx//a%2Fb/../c?x=%7e&y":
		t.Errorf("target %q", got.RequestURI)
	case !slices.Equal(got.Header["Idempotency-Key"], []string{`"a"`, `"b"`}) || !slices.Equal(got.Header["X-Lines"], []string{"1", "2"}):
		t.Errorf("lines %v", got.Header)
	case got.Header.Get("X-Tenant-Id") != "t:u" || got.Header.Get("Authorization") != "Bearer t:u:n":
		t.Errorf("credentials %v", got.Header)
	case got.ContentLength != -1 || got.Trailer.Get("X-T") != "v":
		t.Errorf("framing %d %v", got.ContentLength, got.Trailer)
	}
	c.POST("/", noKey, anonymous, body("")).Is(200)
	if got.ContentLength != 0 || len(got.Header["Idempotency-Key"])+len(got.Header["Authorization"])+len(got.Header["X-Tenant-Id"]) != 0 {
		t.Errorf("length %d, header %v", got.ContentLength, got.Header)
	}
}

// The fixture counts per case.
func TestFixtureKeepsBooksApart(t *testing.T) {
	c := newBare(t, nil)
	d := c.Named("other")
	c.POST("/fx/json")
	c.POST("/fx/json")
	d.POST("/fx/json")
	c.Effects(2)
	d.Effects(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if c.srv.Fixture().Entered(ctx, c.name, 3) == nil {
		t.Error("two requests were taken for three")
	}
}
