package stethttp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// send sends a request to a server with the handler and the timeouts, and returns all that comes
// until the server closes the connection.
func (r *rig) send(t *testing.T, readTimeout time.Duration, text string) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(r.handler)
	srv.Config.ReadTimeout = readTimeout
	srv.Start()
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, text)
	got, err := io.ReadAll(bufio.NewReader(c))
	if err != nil {
		t.Errorf("the connection stays open: %v, after %.60q", err, got)
	}
	return string(got)
}

// A client that waits for 100 (Continue) and is refused need not send its body, and nothing waits
// for it.
func TestABodyThatWasNotAskedForIsNotWaitedFor(t *testing.T) { // H11
	for name, row := range map[string]struct {
		header, target string
		want           string
	}{
		"no key":            {"Content-Length: 2", "/", "400"},
		"chunked":           {"Transfer-Encoding: chunked", "/", "400"},
		"too large":         {"Content-Length: 20\r\nIdempotency-Key: k", "/", "413"},
		"before its policy": {"Content-Length: 2\r\nIdempotency-Key: k", "/%2e%2e/x", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, stethttp.Config{MaxBody: 10}, func(http.ResponseWriter, *http.Request) { t.Error("it runs") })
			got := r.send(t, 0, "POST "+row.target+" HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+row.header+"\r\n\r\n")
			if len(got) < 12 || got[9:12] != row.want {
				t.Errorf("%.200q", got)
			}
		})
	}
}

// The layer's limit for a body never takes the place of a server's shorter one, and holds beside a
// longer one. A handler may take longer than either.
func TestAServersReadTimeoutIsNotLengthened(t *testing.T) { // H15
	const half = "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\n{}"
	for name, row := range map[string]struct{ server, layer time.Duration }{
		"the server's is shorter": {time.Second, time.Hour}, // the head, too, has to come within it
		"the layer's is shorter":  {time.Hour, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, stethttp.Config{BodyTimeout: row.layer}, func(http.ResponseWriter, *http.Request) { t.Error("it runs") })
			if got := r.send(t, row.server, half); len(got) < 12 || got[9:12] != "408" {
				t.Errorf("%.200q", got)
			}
		})
	}
	t.Run("a handler takes longer", func(t *testing.T) {
		t.Parallel()
		const limit = 250 * time.Millisecond
		r := newRig(t, stethttp.Config{BodyTimeout: limit}, func(w http.ResponseWriter, req *http.Request) {
			select {
			case <-req.Context().Done():
				t.Errorf("its time is over: %v", req.Context().Err())
			case <-time.After(4 * limit):
			}
			fmt.Fprint(w, "done")
		})
		if got := r.send(t, 2*limit, half+"{}GET / HTTP/1.0\r\n\r\n"); !bytes.Contains([]byte(got), []byte("done")) {
			t.Errorf("%.200q", got)
		}
	})
}

// slowClient takes the first interim answer when it is let.
type slowClient struct {
	*httptest.ResponseRecorder
	takes   chan struct{}
	interim []http.Header
}

func (c *slowClient) WriteHeader(status int) {
	if status >= 200 {
		c.ResponseRecorder.WriteHeader(status)
		return
	}
	c.interim = append(c.interim, c.Header().Clone())
	<-c.takes
}

// A client that does not take an interim answer does not keep its run from ending. It is answered
// when it has.
func TestAnInterimAnswerThatIsNotTaken(t *testing.T) { // H09, H10
	synctest.Test(t, func(t *testing.T) {
		policy := stet.Policy{Execution: time.Second, Lease: 10 * time.Second}
		r := newRig(t, stethttp.Config{Policy: policy}, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.Header()["Stet.fence"], w.Header()["Stet-Outcome"] = []string{"7"}, []string{"completed"}
			for range 3 {
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.WriteHeader(http.StatusCreated)
		})
		client := &slowClient{ResponseRecorder: httptest.NewRecorder(), takes: make(chan struct{})}
		req := httptest.NewRequest(http.MethodPost, "/charges", bytes.NewReader([]byte("{}")))
		req.Header.Set("Idempotency-Key", "k")
		served := make(chan struct{})
		go func() {
			defer close(served)
			r.handler.ServeHTTP(client, req)
		}()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if have := r.state("k"); have != stet.Unknown {
			t.Errorf("while the client takes nothing, the record is %v", have)
		}
		close(client.takes)
		<-served
		if client.Code != http.StatusGatewayTimeout {
			t.Errorf("the client was told %d", client.Code)
		}
		if len(client.interim) != 1 || client.interim[0].Get("Link") == "" || len(client.interim[0]) != 1 {
			t.Errorf("interim answers: %v", client.interim)
		}
		if client.Header().Get("Link") == "</a.css>; rel=preload" {
			t.Errorf("the answer has the interim one's header: %v", client.Header())
		}
	})
}
