package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// brief ends an execution that has reached its upstream by then, on a busy machine, too; briefer is
// for tests of many executions.
const brief, briefer = time.Second, 350 * time.Millisecond

// impatient makes all executions brief, and answers up to 8 bytes long.
func impatient(c *gateway.Config) {
	c.Default.Policy.Execution, c.Default.MaxResponse = brief, 8
}

// lessPatient makes them briefer.
func lessPatient(c *gateway.Config) {
	c.Default.Policy.Execution, c.Default.MaxResponse = briefer, 8
}

// until waits for a condition.
func (r *rig) until(what string, is func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			r.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (r *rig) get(key string) stet.Record {
	r.Helper()
	have, err := r.engine.Get(r.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
	if err != nil {
		r.Fatal(err)
	}
	return have
}

// late asks an upstream that answers after the client was told 504, and waits until that answer
// counts.
func (r *rig) late(key, body string, goOn func()) {
	r.Helper()
	r.problem(r.post(key, "/", body), "execution-timeout")
	r.problem(r.post(key, "/", body), "outcome-unknown")
	if have := r.get(key); have.State != stet.Unknown || have.Cause != "execution-timeout" || !have.Attended() {
		r.Errorf("%s: %v %q, attended: %t", key, have.State, have.Cause, have.Attended())
	}
	goOn()
	r.until("the upstream's answer counts", func() bool {
		have := r.get(key)
		return have.State != stet.Unknown || !have.Attended()
	})
}

func says(status int, body string) answer {
	return answer{Response: &http.Response{StatusCode: status}, body: body}
}

// What an upstream answers after the execution timeout is what it would have been in time, however
// it comes.
func TestLateAnswersCount(t *testing.T) { // N04
	const head = "201 Created\nX-A: 1\nX-A: 2\n"
	for name, row := range map[string]struct {
		before, after string // what comes before and after the timeout
		want          answer
		state         stet.State
		cause         string
	}{
		"plain":               {"", head + "Content-Length: 2\n\nok", says(201, "ok"), stet.Completed, ""},
		"half a head":         {head[:20], head[20:] + "Content-Length: 2\n\nok", says(201, "ok"), stet.Completed, ""},
		"half a body":         {head + "Content-Length: 4\n\nok", "ok", says(201, "okok"), stet.Completed, ""},
		"half a chunked body": {head + "Transfer-Encoding: chunked\n\n2\nok\n", "2\nok\n0\n\n", says(201, "okok"), stet.Completed, ""},
		"too long a body":     {"", head + "Content-Length: 9\n\n123456789", says(409, ""), stet.Completed, ""}, // as on_oversize says
		"a failure":           {"", "500 No\nX-A: 1\nX-A: 2\nContent-Length: 2\n\nno", says(500, "no"), stet.Completed, ""},
		"a refusal":           {"", "429 No\nContent-Length: 2\n\nno", answer{}, stet.Retryable, "status"},
		"not executed":        {"", "409 No\nStet-Outcome: not-executed\nContent-Length: 2\n\nno", answer{}, stet.Retryable, "stated"},
		"unknown":             {"", head + "Stet-Outcome: unknown\nContent-Length: 2\n\nok", says(409, ""), stet.Unknown, "execution-timeout"},
		"broken off":          {head + "Content-Length: 4\n\nok", "", says(409, ""), stet.Unknown, "execution-timeout"},
		"closed":              {"", "", says(409, ""), stet.Unknown, "execution-timeout"},
		"unframed":            {head + "\nok", "ok", says(201, "okok"), stet.Completed, ""}, // R06
		"unframed JSON":       {head + "Content-Type: application/json\n\n[1", ",2]", says(201, "[1,2]"), stet.Completed, ""},
		"long unframed JSON":  {head + "Content-Type: application/json\n\n[1", ",2,3,4,5,6]", says(409, ""), stet.Completed, ""}, // it is not held
		"half of unframed":    {head + "Content-Type: application/json\n\n[1", "", says(409, ""), stet.Unknown, "execution-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			goOn := make(chan struct{})
			write := func(c net.Conn, text string) { _, _ = io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")) }
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				if readRequest(in) == nil {
					return
				}
				if text := "HTTP/1.1 " + row.before; row.before != "" {
					write(c, text)
				}
				<-goOn
				if text := row.after; row.before == "" && text != "" {
					write(c, "HTTP/1.1 "+text)
				} else {
					write(c, text)
				}
			}), lessPatient)
			r.late("k", "{}", func() { close(goOn) })
			if have := r.get("k"); have.State != row.state || have.Cause != row.cause {
				t.Errorf("%v %q", have.State, have.Cause)
			}
			if row.state == stet.Retryable {
				return // a further request runs it
			}
			a := r.status(r.post("k", "/", "{}"), row.want.StatusCode)
			if a.StatusCode == http.StatusConflict {
				return
			}
			if replayed := a.Header.Get("Idempotent-Replayed") == "true"; a.body != row.want.body || replayed != (row.state == stet.Completed) {
				t.Errorf("%q, replayed: %t", a.body, replayed)
			}
			if x := a.Header["X-A"]; row.state == stet.Completed && !slices.Equal(x, []string{"1", "2"}) {
				t.Errorf("X-A: %q", x)
			}
		})
	}
}

// The same over the other transport, and for a body that is sent from where it is held.
func TestLateAnswersCount_Transport(t *testing.T) { // N04
	large := strings.Repeat("x", 20_000)
	for _, http2 := range []bool{true, false} {
		for _, body := range []string{"{}", large} {
			t.Run(fmt.Sprintf("http2=%t %d", http2, len(body)), func(t *testing.T) {
				goOn := make(chan struct{})
				var effects atomic.Int64
				serve := func(w http.ResponseWriter, req *http.Request) {
					effects.Add(1)
					_, _ = io.Copy(io.Discard, req.Body)
					select {
					case <-goOn:
					case <-req.Context().Done():
						t.Error("the upstream was hung up on")
					}
					w.Header().Set("Trailer", "X-Sum")
					w.Header().Set("Stet-Downstream-Id", "ch_1")
					w.WriteHeader(201)
					_, _ = io.WriteString(w, "ok")
					w.Header().Set("X-Sum", "7")
				}
				var r *rig
				if http2 {
					r, _ = overTLS(t, serve, impatient)
				} else {
					r = newRig(t, upstream(t, serve), lessPatient)
				}
				r.late("k", body, func() { close(goOn) })
				a := r.status(r.post("k", "/", body), 201)
				if a.body != "ok" || a.Trailer.Get("X-Sum") != "7" || a.Header.Get("Idempotent-Replayed") != "true" || effects.Load() != 1 {
					t.Errorf("%+v after %d effects", a, effects.Load())
				}
				if have := r.get("k"); have.DownstreamID != "ch_1" {
					t.Errorf("%q", have.DownstreamID)
				}
			})
		}
	}
}

// A client that was told that the time is over is held no longer: neither its connection nor, over
// HTTP/2, its stream. What is held for it counts until the answer has come.
func TestLateAnswersHoldNoClient(t *testing.T) { // N04
	goOn := make(chan struct{})
	limits := stethttp.NewLimits(stethttp.LimitsConfig{})
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			<-goOn
		}
	}), func(c *gateway.Config) {
		impatient(c)
		c.Default.Limits = limits
	})
	body := strings.Repeat("x", 1000)
	c, in := r.raw(fmt.Sprintf("POST / HTTP/1.1\nHost: x\nIdempotency-Key: k\nContent-Length: %d\n\n%s", len(body), body))
	for _, want := range []int{504, 200} {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != want || res.Close {
			t.Errorf("%d, closed: %t", res.StatusCode, res.Close)
		}
		if want == 504 {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	tr, url := r.overH2C()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))
	req.Header.Set("Idempotency-Key", "h2")
	res, err := tr.RoundTrip(req)
	if err != nil || res.StatusCode != 504 {
		t.Fatal(res, err)
	}
	if _, err := io.ReadAll(res.Body); err != nil { // it ends with the stream
		t.Error(err)
	}
	if held := limits.Buffered(); held < 2*int64(len(body)) {
		t.Errorf("%d bytes are held", held)
	}
	close(goOn)
	r.until("nothing is held", func() bool { return limits.Buffered() == 0 })
	r.state("k", stet.Completed, "")
	r.state("h2", stet.Completed, "")
}

// A client that receives the answer while its time runs out receives the rest, too.
func TestAnswersThatHaveBegunGoOn(t *testing.T) { // N04
	goOn := make(chan struct{})
	r := newRig(t, upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "data: 2\n\n")
	}), impatient)
	go func() {
		defer close(goOn)
		r.until("its time is over", func() bool {
			have, err := r.engine.Get(r.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
			return err == nil && have.State == stet.Unknown
		})
	}()
	if a := r.status(r.post("k", "/", "{}"), 200); a.err != nil || a.body != "data: 1\n\ndata: 2\n\n" {
		t.Errorf("%+v", a)
	}
	r.state("k", stet.Completed, "")
}

// A drain waits for answers that no client waits for any more, within its time.
func TestDrainWaitsForLateAnswers(t *testing.T) { // N04
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprint("answered=", answered), func(t *testing.T) {
			checkLeaks(t)
			goOn := make(chan struct{})
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				if readRequest(in) == nil {
					return
				}
				if answered {
					<-goOn
					_, _ = io.WriteString(c, created)
				} else {
					_, _ = in.ReadByte() // the end of the drain
				}
			}), impatient)
			c := gateway.ServerConfig{Handler: r.gw, DrainTimeout: patience}
			if !answered {
				c.DrainTimeout = 300 * time.Millisecond
			}
			s := start(t, c)
			k := connect(t, s.Addr())
			k.send("POST / HTTP/1.1\nHost: x\nIdempotency-Key: k\nContent-Length: 2\n\n{}")
			if res, _ := k.read(); res.StatusCode != 504 {
				t.Fatal(res.Status)
			}
			s.stop()
			r.until("it drains", s.Draining)
			if answered {
				select {
				case err := <-s.done:
					t.Fatalf("the drain did not wait: %v", err)
				case <-time.After(100 * time.Millisecond):
				}
				close(goOn)
				s.wait()
				r.state("k", stet.Completed, "")
				return
			}
			if err := <-s.done; err == nil || !strings.Contains(err.Error(), "1 requests did not end") {
				t.Error(err)
			}
			s.done = nil
			r.state("k", stet.Unknown, "execution-timeout")
			r.until("it is attended no more", func() bool { have := r.get("k"); return !have.Attended() })
		})
	}
}
