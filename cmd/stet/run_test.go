package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
)

// awaited is a stderr that can be waited for.
type awaited struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	line chan string // each line, as long as there is room
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

// A gateway that has ended leaves no goroutine behind, and nothing on stdout. What ran when it was asked to end finishes.
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
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := &awaited{line: make(chan string, 100)}
	ended := make(chan exit, 1)
	go func() {
		ended <- run(ctx, []string{"gateway", "--upstream", upstream.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, nil, &stdout, stderr)
	}()
	var ready struct{ Msg, Listen, Admin string }
	for ready.Msg != "ready" {
		select {
		case l := <-stderr.line:
			if err := json.Unmarshal([]byte(l), &ready); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		case e := <-ended:
			t.Fatalf("it ended with %d: %s", e, stderr.buf.String())
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := make(chan int, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ready.Listen+"/x", strings.NewReader("{}"))
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
	cancel() // SIGTERM
	close(release)
	if got := <-status; got != http.StatusCreated {
		t.Errorf("the request that ran was answered %d", got)
	}
	select {
	case e := <-ended:
		if e != exitFine {
			t.Errorf("it ended with %d: %s", e, stderr.buf.String())
		}
	case <-time.After(patience):
		t.Fatal("it did not end")
	}
	if _, err := os.Stat("stet.db-wal"); err == nil {
		t.Error("the store was not closed")
	}
	if stdout.Len() > 0 {
		t.Errorf("stdout holds %q", stdout.String())
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
	if exitFine != 0 || exitError != 1 || exitUsage != 2 || exitNotFound != 3 || exitNotAllowed != 4 || exitUnreachable != 5 {
		t.Error("the exit statuses are others")
	}
}

func TestAdminAnswersBecomeStatuses(t *testing.T) {
	asked := &api{base: &url.URL{Scheme: "http", Host: "127.0.0.1:8080"}}
	for _, c := range []struct {
		status int
		body   string
		want   exit
		text   string
	}{
		{404, `{"code":"not-found"}`, exitNotFound, "there is no such record; stet keys list shows what there is, --scope says whose"},
		{404, `404 page not found`, exitError, "http://127.0.0.1:8080 answered 404, and not as the admin API does; is it the admin address?"},
		{401, `{"title":"Token needed"}`, exitNotAllowed, "Token needed; put the token into STET_ADMIN_TOKEN"},
		{403, `{"title":"Not allowed","detail":"viewers cannot reveal"}`, exitNotAllowed, "Not allowed: viewers cannot reveal"},
		{400, `{"title":"Bad filter","detail":"no state x"}`, exitUsage, "Bad filter: no state x"},
		{503, ``, exitUnreachable, "Service Unavailable"},
		{500, `{"title":"The record cannot be read","code":"damaged"}`, exitError, "the admin API answered 500: The record cannot be read"},
	} {
		err := asked.refused(c.status, []byte(c.body))
		if exitOf(err) != c.want || err.Error() != c.text {
			t.Errorf("%d %s: %d, %v; want %d, %s", c.status, c.body, exitOf(err), err, c.want, c.text)
		}
	}
}

func TestSegment(t *testing.T) {
	for s, want := range map[string]string{"k1": "k1", "..": "%2E%2E", "a/b": "a%2Fb", "100% sure?": "100%25%20sure%3F"} {
		if got := segment(s); got != want {
			t.Errorf("segment(%q) = %s, want %s", s, got, want)
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
