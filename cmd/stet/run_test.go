package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
)

// awaited is a stderr that can be waited for.
type awaited struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	line chan string // each line, as long as there is room
}

func (a *awaited) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.String()
}

func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range bytes.Lines(p) {
		select {
		case a.line <- string(l):
		default:
		}
	}
	return a.buf.Write(p)
}

// served is a stet gateway in this process.
type served struct {
	Msg, Listen, Admin string // its "ready" line

	stdout bytes.Buffer
	stderr *awaited
	ended  chan exit
	stop   context.CancelFunc // what SIGTERM is to a process
}

// serve runs a gateway in the working directory until the test ends, and waits until it is ready.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{stderr: &awaited{line: make(chan string, 100)}, ended: make(chan exit, 1), stop: cancel}
	gone := make(chan struct{})
	t.Cleanup(func() { cancel(); <-gone })
	args = append([]string{"gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)
	go func() {
		defer close(gone)
		s.ended <- run(ctx, args, nil, &s.stdout, s.stderr)
	}()
	for s.Msg != "ready" {
		select {
		case l := <-s.stderr.line:
			if err := json.Unmarshal([]byte(l), s); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		case e := <-s.ended:
			t.Fatalf("it ended with %d: %s", e, s.stderr.text())
		}
	}
	return s
}

// metrics are the series of a gateway.
func (s *served) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	res, err := http.Get("http://" + s.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all := map[string]float64{}
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		if i := strings.LastIndexByte(in.Text(), ' '); i > 0 && in.Text()[0] != '#' {
			if all[in.Text()[:i]], err = strconv.ParseFloat(in.Text()[i+1:], 64); err != nil {
				t.Fatalf("%s: %v", in.Text(), err)
			}
		}
	}
	return all
}

// await returns the series once they are as asked.
func (s *served) await(t *testing.T, what string, is func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		got := s.metrics(t)
		if is(got) {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s; the log is\n%s", what, patience, s.stderr.text())
		}
		runtime.Gosched()
	}
}

// A gateway that has ended leaves no goroutine behind, and nothing on stdout. What ran when it was
// asked to end finishes.
func TestGatewayEndsClean(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Chdir(t.TempDir())
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		w.WriteHeader(http.StatusCreated)
	}))
	defer upstream.Close()
	gate := serve(t, "--upstream", upstream.URL)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := make(chan int, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+gate.Listen+"/x",
			strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", "k1")
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		_ = res.Body.Close()
		status <- res.StatusCode
	}()
	<-arrived
	gate.stop() // SIGTERM
	close(release)
	if got := <-status; got != http.StatusCreated {
		t.Errorf("the request that ran was answered %d", got)
	}
	select {
	case e := <-gate.ended:
		if e != exitFine {
			t.Errorf("it ended with %d: %s", e, gate.stderr.text())
		}
	case <-time.After(patience):
		t.Fatal("it did not end")
	}
	if _, err := os.Stat("stet.db-wal"); err == nil {
		t.Error("the store was not closed")
	}
	if gate.stdout.Len() > 0 {
		t.Errorf("stdout holds %q", gate.stdout.String())
	}
}

func TestExitStatuses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want exit
	}{
		{errors.New("anything"), exitError},
		{config.Errors{}, exitUsage},
		{fmt.Errorf("x: %w", config.Errors{}), exitUsage},
		{failf(exitNotFound, "x"), exitNotFound},
		{fmt.Errorf("x: %w", failf(exitNotAllowed, "x")), exitNotAllowed},
		{fmt.Errorf("x: %w", dsn.ErrUnreachable), exitUnreachable},
		{context.DeadlineExceeded, exitUnreachable},
		{context.Canceled, exitError},
	} {
		if got := exitOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
	// Scripts rely on the numbers.
	if exitFine != 0 || exitError != 1 || exitUsage != 2 || exitNotFound != 3 || exitNotAllowed != 4 ||
		exitUnreachable != 5 {
		t.Error("the exit statuses are others")
	}
}

func TestAdminAnswersBecomeStatuses(t *testing.T) {
	asked := &api{at: "http://127.0.0.1:8080"}
	for _, c := range []struct {
		status int
		body   string
		want   exit
		text   string
	}{
		{404, `{"code":"not-found"}`, exitNotFound, "there is no such record; stet keys list shows what there is, --scope says whose"},
		{404, `404 page not found`, exitError, "http://127.0.0.1:8080 answered 404, and does not say why"},
		{401, `{"title":"Token needed"}`, exitNotAllowed, "http://127.0.0.1:8080 asks for a token; put the token into STET_ADMIN_TOKEN"},
		{403, `{"title":"Not allowed","detail":"viewers cannot reveal"}`, exitNotAllowed, "viewers cannot reveal"},
		{400, `{"title":"Bad filter","detail":"no state x"}`, exitUsage, "Bad filter: no state x"},
		{503, ``, exitUnreachable, "Service Unavailable"},
		{500, `{"title":"The record cannot be read","code":"damaged"}`, exitError, "the admin API answered 500: The record cannot be read"},
	} {
		p := &adminclient.Problem{}
		_ = json.Unmarshal([]byte(c.body), p) // one is no JSON
		p.Status = c.status
		err := asked.explainError(p)
		if exitOf(err) != c.want || err.Error() != c.text {
			t.Errorf("%d %s: %d, %v; want %d, %s", c.status, c.body, exitOf(err), err, c.want, c.text)
		}
	}
}

// A client's text cannot steer the operator's terminal.
func TestVisible(t *testing.T) {
	for s, want := range map[string]string{"POST /x": "POST /x", "": "-", "\x1b[2J": `\x1b[2J`, "a\nb": `a\nb`, "naïve": "naïve"} {
		if got := visible(s); got != want {
			t.Errorf("visible(%q) = %s, want %s", s, got, want)
		}
	}
}
