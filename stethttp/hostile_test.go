package stethttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// do sends a request that is not the usual one.
func (r *rig) do(req *http.Request) *http.Response {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Result()
}

// TestNoOfferTurnsTheGuardOff: Java's client and curl offer h2c with every first request of a
// connection in clear, POSTs included, and anybody can offer anything. It is the same request
// whether the server takes the offer or not (RFC 9110 section 7.8).
func TestNoOfferTurnsTheGuardOff(t *testing.T) { // SM-04, C01
	for _, offer := range []string{"h2c", "TLS/1.2", "HTTP/2.0, h2c", "", "websocket", "tcp", "h2c, SPDY/3.1"} {
		r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
			if req.Header["Upgrade"] != nil || req.Header.Get("Connection") != "HTTP2-Settings" {
				t.Errorf("the handler sees the offer: %v", req.Header)
			}
			created(w, req)
		})
		for range 2 {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/charges", strings.NewReader("{}"))
			req.Header.Set("Idempotency-Key", "k")
			req.Header.Set("Connection", "Upgrade, HTTP2-Settings")
			req.Header.Set("Upgrade", offer)
			r.want(r.do(req), 201, "")
		}
		r.wantRuns(1)
	}
}

// TestFailOpenNeverRunsBesideARun: what waits for a run knows of it, and its body is gone.
func TestFailOpenNeverRunsBesideARun(t *testing.T) { // I1
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var bodies []string
		r := newRig(t, stethttp.Config{FailOpen: true, Waiting: stethttp.Wait, WaitTimeout: time.Second}, func(w http.ResponseWriter, req *http.Request) {
			b, _ := io.ReadAll(req.Body)
			bodies = append(bodies, string(b))
			<-release
			created(w, req)
		})
		first, second := make(chan *http.Response, 1), make(chan *http.Response, 1)
		go func() { first <- r.post("k", `{"amount":1}`) }()
		synctest.Wait()
		go func() { second <- r.post("k", `{"amount":1}`) }()
		synctest.Wait()
		r.store.noGet.Store(true)
		time.Sleep(10 * time.Second) // virtual: what waits asks the store at last
		synctest.Wait()
		close(release)
		r.want(<-second, 503, stethttp.StoreUnavailable)
		r.want(<-first, 201, "")
		if r.runs.Load() != 1 {
			t.Errorf("%d runs, with the bodies %q", r.runs.Load(), bodies)
		}
	})
}

// TestLateStatementsCount: a handler whose client was answered without it has the last word on what
// happened, and an answer that says nothing happened, or that it is unknown, is no result.
func TestLateStatementsCount(t *testing.T) { // FX-11, I6
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, c *stet.Claim)
		want   stet.State
	}{
		{"unknown by claim", func(w http.ResponseWriter, c *stet.Claim) { c.Unknown("provider-timeout"); w.WriteHeader(202) }, stet.Unknown},
		{"unknown by header", func(w http.ResponseWriter, _ *stet.Claim) {
			w.Header().Set("Stet-Outcome", "unknown")
			w.WriteHeader(202)
		}, stet.Unknown},
		{"not executed by claim", func(w http.ResponseWriter, c *stet.Claim) { c.NotExecuted("declined"); w.WriteHeader(402) }, stet.Retryable},
		{"not executed by header", func(w http.ResponseWriter, _ *stet.Claim) {
			w.Header().Set("Stet-Outcome", "not-executed")
			w.WriteHeader(402)
		}, stet.Retryable},
		{"completed by claim", func(w http.ResponseWriter, c *stet.Claim) { c.Completed(); w.WriteHeader(500) }, stet.Completed},
		{"completed by header", func(w http.ResponseWriter, _ *stet.Claim) {
			w.Header().Set("Stet-Outcome", "completed")
			w.WriteHeader(500)
		}, stet.Completed},
		{"an answer", func(w http.ResponseWriter, _ *stet.Claim) { w.WriteHeader(201) }, stet.Completed},
		{"a refusal", func(w http.ResponseWriter, _ *stet.Claim) { w.WriteHeader(429) }, stet.Unknown},
		{"a failure", func(w http.ResponseWriter, _ *stet.Claim) { w.WriteHeader(500) }, stet.Unknown},
		{"silence", func(http.ResponseWriter, *stet.Claim) {}, stet.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: time.Second}, On5xx: stethttp.ReleaseFailure}, func(w http.ResponseWriter, req *http.Request) {
					time.Sleep(2 * time.Second) // virtual
					c.answer(w, stet.ClaimFrom(req.Context()))
				})
				r.want(r.post("k", "{}"), 504, stethttp.ExecutionTimeout)
				if got := r.state("k"); got != c.want {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestEarlyDoubtStays: what the handler said of its outcome before its time was over is not taken
// back by an answer after it.
func TestEarlyDoubtStays(t *testing.T) { // I6
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: time.Second}}, func(w http.ResponseWriter, req *http.Request) {
			stet.ClaimFrom(req.Context()).Unknown("provider-timeout")
			time.Sleep(2 * time.Second) // virtual
			w.WriteHeader(202)
		})
		r.want(r.post("k", "{}"), 504, stethttp.ExecutionTimeout)
		if got := r.state("k"); got != stet.Unknown {
			t.Errorf("%v, want unknown", got)
		}
	})
}

// TestRefusedBodyLeavesNoConnectionWaiting: net/http reads what is left of a refused body before it
// answers.
func TestRefusedBodyLeavesNoConnectionWaiting(t *testing.T) { // W26, I7
	r := newRig(t, stethttp.Config{MaxBody: 10, BodyTimeout: 100 * time.Millisecond}, created)
	srv := httptest.NewServer(r.handler)
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n01234567890123456789\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer while the rest does not come: %v", err)
	}
	defer res.Body.Close()
	r.want(res, 413, stethttp.PayloadTooLarge)
}

// TestStatusThatCannotBeSentIsNoResult: it would break every replay.
func TestStatusThatCannotBeSentIsNoResult(t *testing.T) {
	for _, status := range []int{0, 99, 1000, -1} {
		r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("WriteHeader(%d) did not panic as net/http's does", status)
				}
			}()
			r.post("k", "{}")
		}()
		r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
	}
}

// TestPanicOnAHijackedConnectionIsUnknown: what the handler said there was not seen, whatever a
// panic means otherwise.
func TestPanicOnAHijackedConnectionIsUnknown(t *testing.T) {
	for _, means := range []stethttp.OnPanic{stethttp.PanicUnknown, stethttp.PanicRelease, stethttp.PanicReplay} {
		r := newRig(t, stethttp.Config{OnPanic: means}, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(c, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
			c.Close()
			panic(http.ErrAbortHandler)
		})
		srv := httptest.NewServer(r.handler)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("{}"))
		req.Header["idempotency-key"] = []string{"k"} // a spelling that net/http does not retry for
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		srv.Close() // waits for nothing hijacked
		deadline := time.Now().Add(patience)
		for r.state("k") == stet.Running && time.Now().Before(deadline) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			<-ctx.Done()
			cancel()
		}
		if got := r.state("k"); got != stet.Unknown {
			t.Errorf("OnPanic %d: %v", means, got)
		}
	}
}

// TestHijackAfterTheEndIsRefused: by then the connection carries the answer.
func TestHijackAfterTheEndIsRefused(t *testing.T) {
	var late http.ResponseWriter
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) { late = w; created(w, req) })
	hijacked := false
	r.handler = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(hijacker{w, &hijacked}, req)
			if _, _, err := http.NewResponseController(late).Hijack(); err == nil || hijacked {
				t.Error("the connection was taken after the end")
			}
		})
	}(r.handler)
	r.want(r.post("k", "{}"), 201, "")
}

type hijacker struct {
	http.ResponseWriter
	called *bool
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*h.called = true
	return nil, nil, nil
}

// TestNoBodyLimit: the largest limit there is.
func TestNoBodyLimit(t *testing.T) {
	r := newRig(t, stethttp.Config{MaxBody: math.MaxInt64, MaxResponse: math.MaxInt64}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(w, req.Body)
	})
	body := strings.Repeat("x", 100_000)
	for range 2 {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader(body)))
		req.Header.Set("Idempotency-Key", "k")
		if b, _ := io.ReadAll(r.do(req).Body); string(b) != body {
			t.Fatalf("%d bytes came back of %d", len(b), len(body))
		}
	}
	r.wantRuns(1)
}

// TestBuffersOfFailedWritesAreNotReused: a writer that failed may still be writing (HTTP/2 does,
// when a stream is reset).
func TestBuffersOfFailedWritesAreNotReused(t *testing.T) { // I4
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(req.Header.Get("Idempotency-Key")[:1], 3000))
	})
	for i := range 100 {
		w := &retaining{ResponseRecorder: httptest.NewRecorder()}
		for _, key := range []string{"a", "b"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
			req.Header.Set("Idempotency-Key", fmt.Sprint(key, i))
			if key == "a" {
				r.handler.ServeHTTP(w, req)
			} else {
				r.do(req)
			}
		}
		if got := strings.TrimLeft(string(w.held), "a"); got != "" {
			t.Fatalf("one client's writer holds another's bytes: %.10q", got)
		}
	}
}

type retaining struct {
	*httptest.ResponseRecorder
	held []byte
}

func (r *retaining) Write(p []byte) (int, error) {
	r.held = p
	return 0, errors.New("stream reset")
}

// TestUploadedFilesAreRemoved: net/http removes what its own request says was spilled to disk.
func TestUploadedFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	spilled := 0
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if err := req.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		files, _ := os.ReadDir(dir)
		spilled = len(files)
	})
	srv := httptest.NewServer(r.handler)
	body := "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("y", 100) + "\r\n--x--\r\n"
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader(body))
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	srv.Close()
	if left, _ := os.ReadDir(dir); spilled == 0 || len(left) != 0 {
		t.Errorf("%d files were spilled, %d are left", spilled, len(left))
	}
}

// TestHeadersAreKnownInAnySpelling: a handler may put names into the map as they are.
func TestHeadersAreKnownInAnySpelling(t *testing.T) { // RP-06
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		h := map[string][]string(w.Header())
		h["set-cookie"] = []string{"session=1"}
		h["content-length"] = []string{"0"}
		h["ETag"] = []string{`"1"`}
		w.WriteHeader(201)
	})
	r.post("k", "{}")
	h := map[string][]string(r.post("k", "{}").Header)
	if h["set-cookie"] != nil || h["content-length"] != nil || h["ETag"] == nil {
		t.Errorf("replayed: %v", h)
	}
}

// TestAbandonDoesNotWaitForReaders: a client that does not read a live answer holds up its handler,
// and no one else.
func TestAbandonDoesNotWaitForReaders(t *testing.T) { // W32
	full, left := make(chan struct{}), make(chan struct{})
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
	})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
	req.Header.Set("Idempotency-Key", "k")
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.handler.ServeHTTP(stalled{httptest.NewRecorder(), full, left}, req)
	}()
	<-full
	abandoned := make(chan int, 1)
	go func() { abandoned <- r.engine.Abandon(t.Context()) }()
	select {
	case n := <-abandoned:
		if n != 1 || r.state("k") != stet.Unknown {
			t.Errorf("%d were abandoned; the record is %v", n, r.state("k"))
		}
	case <-time.After(patience):
		t.Error("Abandon waits for a client to read")
	}
	close(left)
	<-served
	if r.state("k") != stet.Unknown {
		t.Errorf("the record is %v after the stream's end", r.state("k"))
	}
}

// stalled is a client that does not read.
type stalled struct {
	*httptest.ResponseRecorder
	full, left chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	close(s.full)
	<-s.left
	return 0, io.ErrClosedPipe
}

// TestAnnouncedBodiesHoldLittle: what is not there yet must not keep others from buffering what is.
func TestAnnouncedBodiesHoldLittle(t *testing.T) { // W26
	limits := stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: 1 << 20})
	r := newRig(t, stethttp.Config{Limits: limits}, func(w http.ResponseWriter, req *http.Request) { _, _ = io.Copy(w, req.Body) })
	var idle []*io.PipeWriter
	done := make(chan struct{})
	const n = 8
	for i := range n {
		body, in := io.Pipe()
		idle = append(idle, in)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
		req.Header.Set("Idempotency-Key", fmt.Sprint("idle", i))
		req.ContentLength = 1_000_000
		go func() {
			r.handler.ServeHTTP(httptest.NewRecorder(), req)
			_ = body.Close()
			done <- struct{}{}
		}()
		_, _ = in.Write([]byte("{")) // returns when it was read: the memory is held
	}
	body := `"` + strings.Repeat("x", 300_000) + `"`
	if b, _ := io.ReadAll(r.post("k", body).Body); string(b) != body {
		t.Errorf("%d bytes came back of %d while %d others had announced theirs", len(b), len(body), n)
	}
	for _, in := range idle {
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
		<-done
	}
	if held := limits.Buffered(); held != 0 {
		t.Errorf("%d bytes are held in the end", held)
	}
}

// TestOnlyHTTP1ConnectionsAreClosed: Connection: close on one stream would end an HTTP/2 connection
// for all.
func TestOnlyHTTP1ConnectionsAreClosed(t *testing.T) {
	for major, want := range map[int]string{1: "close", 2: ""} {
		r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: time.Millisecond}}, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		for _, body := range []io.Reader{strings.NewReader("{}"), brokenBody{}} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
			req.Header.Set("Idempotency-Key", "k")
			req.ProtoMajor = major
			if resp := r.do(req); resp.Header.Get("Connection") != want || resp.StatusCode < 400 {
				t.Errorf("HTTP/%d: %s, Connection: %q", major, resp.Status, resp.Header.Get("Connection"))
			}
		}
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestHeadAnnouncesABodyThatDoesNotCome: where HEAD is guarded, its Content-Length is no broken
// promise (RFC 9110 section 9.3.2).
func TestHeadAnnouncesABodyThatDoesNotCome(t *testing.T) {
	r := newRig(t, stethttp.Config{EnabledMethods: []string{"HEAD"}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
	})
	for range 2 {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", nil)
		req.Header.Set("Idempotency-Key", "k")
		r.want(r.do(req), 200, "")
	}
	r.wantRuns(1)
}

// TestShadowSetsNoDeadline: a body that takes its time arrives as it would without the layer.
func TestShadowSetsNoDeadline(t *testing.T) {
	for mode, want := range map[stethttp.Mode]int{stethttp.ModeShadow: 0, stethttp.ModeByMethod: 2} {
		r := newRig(t, stethttp.Config{Mode: mode}, created)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", "k")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r.handler.ServeHTTP(w, req)
		if r.runs.Load() != 1 || w.set != want {
			t.Errorf("mode %d: %d runs, %d deadlines", mode, r.runs.Load(), w.set)
		}
	}
}

type deadlines struct {
	*httptest.ResponseRecorder
	set int
}

func (d *deadlines) SetReadDeadline(time.Time) error {
	d.set++
	return nil
}

// TestStoredStatusThatCannotBeSent: a record made by hand, or by another program, breaks no replay.
func TestStoredStatusThatCannotBeSent(t *testing.T) {
	for _, status := range []int{0, 99, 103, 1000} {
		r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
			stet.ClaimFrom(req.Context()).Unknown("lost")
			created(w, req)
		})
		r.want(r.post("k", "{}"), 201, "")
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		h := rec.Head // the engine stores no such status
		h.Version, h.State, h.Status, h.DueIn = rec.Version+1, stet.Completed, status, time.Hour
		_, err = r.engine.Store().Replace(t.Context(), rec.Version, h, &stet.Body{Response: &stet.Response{Status: status}})
		if err != nil {
			t.Fatal(err)
		}
		r.want(r.post("k", "{}"), 409, stethttp.ResultNotRetained)
	}
}
