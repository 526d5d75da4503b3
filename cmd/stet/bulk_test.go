package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/operate"
)

// shelf is a store in the working directory with n records of unknown outcome, which processes
// share with this one.
type shelf struct {
	*testing.T
	store  stet.Store
	engine *stet.Engine
	n      int
}

func newShelf(t *testing.T, address string, n int) *shelf {
	t.Helper()
	t.Chdir(t.TempDir())
	d, err := dsn.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), dsn.Serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := stet.New(s.Store, stet.Config{StoreTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	const writers = 64
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "t1", Key: stet.Key(fmt.Sprintf("key-%05d", i))},
					State:   stet.Unknown,
					Version: stet.Version(i + 1), Attempt: 1, Route: "default", Cause: "panic", DueIn: stet.Never}}
				if _, err := s.Create(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return &shelf{t, s.Store, e, n}
}

// gateway starts one on the shelf, with a policy.
func (s *shelf) gateway(upstream, policy string) (g *gatewayProcess, at string) {
	s.Helper()
	conf := configured(s.T, "store: { timeout_s: 20 }\n"+policy)
	g = &gatewayProcess{}
	if err := g.start(".", os.Environ(), "gateway", conf, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--upstream", upstream); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = g.cmd.Process.Kill(); <-g.gone })
	var said struct{ Admin string }
	if json.Unmarshal([]byte(g.wait(regexp.MustCompile(`"msg":"ready"`))), &said) != nil {
		s.Fatalf("the gateway did not become ready:\n%s", g.text())
	}
	return g, "http://" + said.Admin
}

// until waits for the job to be as asked.
func (s *shelf) until(what string, is func(j *bulk.Job) bool) bulk.Job {
	s.Helper()
	jobs := bulk.New(s.engine)
	for end := time.Now().Add(3 * patience); time.Now().Before(end) && rest.For(s.Context(), 10*time.Millisecond); {
		recent, err := jobs.Recent(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if len(recent) == 1 && is(&recent[0]) {
			return recent[0]
		}
	}
	s.Fatalf("%s: not within %s", what, 3*patience)
	panic("unreachable")
}

func begun(j *bulk.Job) bool { return j.Done > 0 }
func over(j *bulk.Job) bool  { return j.State == bulk.Completed }

// all demands that each record was released once, and counted once.
func (s *shelf) all(j bulk.Job) {
	s.Helper()
	if j.Done != s.n || j.Failed != 0 || j.Left != 0 {
		s.Errorf("%d done, %d failed, %d left: %v", j.Done, j.Failed, j.Left, j.Errors)
	}
	changes := map[stet.ID]int{}
	for q := (stet.HistoryQuery{Limit: stet.MaxLimit}); ; {
		page, next, err := s.engine.Operator().History(s.Context(), q)
		if err != nil {
			s.Fatal(err)
		}
		for _, c := range page {
			if c.Action() == "release" {
				changes[c.ID]++
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	for id, n := range changes {
		if n != 1 {
			s.Errorf("record %s was released %d times", string(id.Key), n)
		}
	}
	if n, err := s.engine.Operator().Count(s.Context(),
		stet.Query{States: []stet.State{stet.Retryable}, Limit: 2 * s.n}); err != nil || n != s.n || len(changes) != s.n {
		s.Errorf("%d are retryable, %d have a change, %v", n, len(changes), err)
	}
}

// many is more than two pages of a job: it can be met in the middle, if late, too.
const many = 10 * 256 // pages of a job

// A gateway that is killed in the middle of a job leaves the rest to the next one.
func TestBulkSurvivesItsGateway(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	const brief = "policy: { lease_s: 1, execution_timeout_s: 1 }\n" // the next one waits for the end of its lease
	first, at := s.gateway(upstream.URL, brief)
	order := fmt.Sprintf(`{"action":"release","filter":{"scope":"t1"},"expect":%d,"now":true,"reason":"tests"}`, many)
	res, err := http.Post(at+"/api/v1/bulk", "application/json", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Fatal(res.Status)
	}
	s.until("it has begun", begun)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.gone
	half := s.until("it is there", func(*bulk.Job) bool { return true })
	if half.State == bulk.Completed || half.Done == many {
		t.Fatalf("it was killed too late: %s, %d done", half.State, half.Done)
	}
	_, at = s.gateway(upstream.URL, brief)
	s.all(s.until("it is over", over))
	var doc operate.Job
	get, err := http.Get(at + "/api/v1/bulk/" + half.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = get.Body.Close() }()
	if err := json.NewDecoder(get.Body).Decode(&doc); err != nil || doc.Done != many || doc.State != bulk.Completed {
		t.Errorf("%+v, %v", doc, err)
	}
}

// One that is asked to end leaves the job at a recovery point, at once and not when its lease ends.
func TestBulkOfAGatewayThatEnds(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	g, at := s.gateway(upstream.URL, "")
	c := s.command("keys", "release", "--admin", at, "--scope", "t1", "--now", "--reason", "tests", "--yes")
	s.until("it has begun", begun)
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-g.gone
	if g.cmd.ProcessState.ExitCode() != 0 || strings.Contains(g.text(), "executions that still ran are unknown now") {
		t.Errorf("%v: %s", g.err, g.text())
	}
	if half := s.until("it is there", func(*bulk.Job) bool { return true }); half.State != bulk.Waiting {
		t.Errorf("it is %s", half.State)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil { // it would wait for a gateway
		t.Fatal(err)
	}
	_ = c.Wait()
	_, _ = s.gateway(upstream.URL, "")
	s.all(s.until("it is over", over))
}

// process is a stet command in a process of its own.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func (s *shelf) command(args ...string) *process {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	p := &process{Cmd: &exec.Cmd{Path: self, Args: append([]string{"stet"}, args...), Env: os.Environ()}}
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	return p
}

// ended demands the status of a command, and returns what it wrote.
func (p *process) ended(s *shelf, want int) (stdout, stderr string) {
	s.Helper()
	err := p.Wait()
	var status *exec.ExitError
	if got := p.ProcessState.ExitCode(); got != want || err != nil && !errors.As(err, &status) {
		s.Fatalf("it ended with %d, want %d: %v\n%s%s", got, want, err, &p.stdout, &p.stderr)
	}
	return p.stdout.String(), p.stderr.String()
}

// Ctrl-C ends the watching, and not the job, where a gateway does the work.
func TestInterruptedWatch(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	_, at := s.gateway(upstream.URL, "")
	p := s.command("keys", "release", "--admin", at, "--scope", "t1", "--now", "--reason", "tests", "--yes")
	job := s.until("it has begun", begun)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := p.ended(s, 1)
	if !strings.HasPrefix(stdout, "changed ") ||
		!strings.Contains(stderr, "stet: no longer watching; the job goes on at the gateway, with ") ||
		!strings.Contains(stderr, "stet keys bulk "+job.ID+" --admin "+at+" shows it") {
		t.Errorf("%s%s", stdout, stderr)
	}
	s.all(s.until("it is over", over))
}

// Ctrl-C stops the job at a recovery point where the command itself does the work; what it says to
// do goes on with it.
func TestInterruptedWork(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	p := s.command("keys", "release", "--store", "sqlite:stet.db", "--scope", "t1", "--now", "--reason", "tests", "--yes")
	job := s.until("it has begun", begun)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := p.ended(s, 1)
	again := "stet keys bulk resume " + job.ID + " --store sqlite:stet.db"
	if !strings.Contains(stderr, "stet: stopped with ") || !strings.Contains(stderr, again) {
		t.Fatalf("%s%s", stdout, stderr)
	}
	half := s.until("it is there", func(*bulk.Job) bool { return true })
	// It is there at once, not by its lease.
	if half.State != bulk.Waiting || stdout != fmt.Sprintf("changed %d\n", half.Done) || half.Left == 0 {
		t.Errorf("%q, and it is %s with %d done, %d left", stdout, half.State, half.Done, half.Left)
	}
	stdout, _ = s.command(strings.Fields(again)[1:]...).ended(s, 0)
	if stdout != fmt.Sprintf("changed %d\n", many) {
		t.Errorf("%q", stdout)
	}
	s.all(s.until("it is over", over))
}

// A job that an operator stops keeps its place until one resumes it for a reason.
func TestStoppedAndResumed(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	order := bulk.Order{Action: bulk.Release, Query: stet.Query{Scope: "t1"}, Expect: many, Now: true}
	order.Note = stet.Note{Who: "otto", Why: "tests"}
	job, err := bulk.New(s.engine).Start(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	command := func(status exit, verb string, more ...string) string {
		t.Helper()
		args := append([]string{"keys", "bulk", verb, job.ID, "--store", "sqlite:stet.db"}, more...)
		out, errs := s.command(args...).ended(s, int(status))
		return out + errs
	}
	command(exitUsage, "stop")
	if said := command(exitFine, "stop", "--reason", "a doubt"); said != fmt.Sprintf(
		"stopped; at its last recovery point %d of %[1]d records were left\n", many) {
		t.Error(said)
	}
	if said := command(exitError, "stop", "--reason", "a doubt"); !strings.Contains(said, "It is stopped.") {
		t.Error(said)
	}
	if said := command(exitUsage, "resume"); !strings.Contains(said, "to go on takes --reason TEXT") {
		t.Error(said)
	}
	if j := s.until("it is there", func(*bulk.Job) bool { return true }); j.State != bulk.Stopped || j.Done != 0 {
		t.Errorf("it is %s with %d done", j.State, j.Done)
	}
	if said := command(exitFine, "resume", "--reason", "it is right"); !strings.HasPrefix(said, fmt.Sprintf("changed %d\n", many)) {
		t.Error(said)
	}
	s.all(s.until("it is over", over))
	if said := command(exitFine, "report"); !strings.HasPrefix(said, "nothing failed") {
		t.Error(said)
	}
}

// Who watches a job that another operator stops is told so, and how to go on.
func TestStoppedWhileWatched(t *testing.T) {
	var stopped atomic.Bool
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		j := operate.Job{Job: "bulk_1", State: bulk.Running, Total: 9, Left: 4, Done: 5}
		if strings.HasPrefix(r.URL.Path, "/api/") && stopped.Swap(true) {
			j.State = bulk.Stopped
		}
		_ = json.NewEncoder(w).Encode(j)
	}))
	status, out, errs := ran(t, "keys", "bulk", "resume", "bulk_1", "--admin", at)
	if status != exitError || out != "changed 5\n" ||
		!strings.Contains(errs, "somebody stopped the job, with 4 records left; "+
			"stet keys bulk resume bulk_1 --admin "+at+" --reason TEXT goes on with it") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

// An incident's records are changed as they were when they were counted: each is sent with its
// basis, so that what changes while the question waits is left alone. One is not several.
func TestTheRecordsOfAnIncidentArePinned(t *testing.T) {
	var sent operate.Order
	incident := operate.Incident{Count: 1, Asking: operate.Asking{Count: 1},
		Keys: []operate.Record{{ID: "k_0123456789abcdef", Basis: "fedcba9876543210", State: "unknown"}}}
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		doc := any(operate.Job{Job: "bulk_1", State: bulk.Completed, Total: 1, Left: 1})
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/incidents/"):
			doc = incident
		case r.Method == http.MethodPost:
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			doc = map[string]string{"job": "bulk_1"}
		}
		_ = json.NewEncoder(w).Encode(doc) // the client is gone
	}))
	status, _, errs := ran(t, "keys", "release", "--incident", "i_1", "--reason", "x", "--yes", "--admin", at)
	if status != exitFine || sent.Expect != 1 || strings.Join(sent.IDs, " ") != "k_0123456789abcdef@fedcba9876543210" ||
		!strings.HasPrefix(errs, "release 1 record (1 unknown; ") || !strings.Contains(errs, "\n1 was left as it is: ") {
		t.Errorf("%d, sent %+v: %s", status, sent, errs)
	}
	_, out, _ := ran(t, "incidents", "show", "i_1", "--admin", at)
	if !strings.Contains(out, "1 time, the last ") {
		t.Error(out)
	}
}
