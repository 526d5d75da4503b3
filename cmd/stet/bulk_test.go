package main

import (
	"bytes"
	"context"
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

// desk is an operator's over the same store.
func (s *shelf) desk(jobs *operate.Jobs) *operate.Desk {
	s.Helper()
	service, err := operate.New(operate.Config{Engine: s.engine, Jobs: jobs})
	if err != nil {
		s.Fatal(err)
	}
	return service.For(operate.Caller{Name: "otto", Role: operate.Admin}, nil)
}

// until waits for the latest job to be as asked.
func (s *shelf) until(what string, is func(j *operate.Job) bool) operate.Job {
	s.Helper()
	desk := s.desk(operate.NewJobs())
	for end := time.Now().Add(3 * patience); time.Now().Before(end) && rest.For(s.Context(), 10*time.Millisecond); {
		recent, err := desk.RecentJobs(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if len(recent.Jobs) > 0 && is(&recent.Jobs[0]) {
			return recent.Jobs[0]
		}
	}
	s.Fatalf("%s: not within %s", what, 3*patience)
	panic("unreachable")
}

func begun(j *operate.Job) bool       { return j.Done > 0 }
func over(j *operate.Job) bool        { return j.State == operate.JobCompleted }
func interrupted(j *operate.Job) bool { return j.State == operate.JobInterrupted }

// all demands that each record was released once.
func (s *shelf) all() {
	s.Helper()
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

// many takes a job so long that it can be met in the middle, if late, too.
const many = 2560

// A gateway that is killed in the middle of a job leaves the rest as it is, and says so once its lease
// is over. The same order takes the rest.
func TestBulkOfAKilledGateway(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	const brief = "policy: { lease_s: 1, execution_timeout_s: 1 }\n"
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
	half := s.until("it is interrupted", interrupted)
	if half.Done == 0 || half.Done == many || half.Left != many-half.Done {
		t.Fatalf("%d done, %d left", half.Done, half.Left)
	}
	_, at = s.gateway(upstream.URL, brief)
	s.rest("--admin", at)
}

// rest gives the command of a job that was interrupted again, and demands that all is done then.
func (s *shelf) rest(where, at string) {
	s.Helper()
	stdout, _ := s.command("keys", "release", where, at, "--scope", "t1", "--now", "--reason", "tests", "--yes").ended(s, 0)
	j := s.until("it is over", over)
	if j.Total == many || j.Done != j.Total || j.Failed != 0 || j.Left != 0 || stdout != fmt.Sprintf("changed %d\n", j.Total) {
		s.Errorf("%q: %d of %d done, %d failed, %d left: %v", stdout, j.Done, j.Total, j.Failed, j.Left, j.Errors)
	}
	s.all()
}

// One that is asked to end says at once, and not when its lease ends, that the job was interrupted.
func TestBulkOfAGatewayThatEnds(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	g, at := s.gateway(upstream.URL, "policy: { lease_s: 300 }\n")
	c := s.command("keys", "release", "--admin", at, "--scope", "t1", "--now", "--reason", "tests", "--yes")
	s.until("it has begun", begun)
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-g.gone
	if g.cmd.ProcessState.ExitCode() != 0 || strings.Contains(g.text(), "executions that still ran are unknown now") {
		t.Errorf("%v: %s", g.err, g.text())
	}
	s.until("it is interrupted", interrupted)
	if err := c.Process.Signal(os.Interrupt); err != nil { // it would wait for a gateway
		t.Fatal(err)
	}
	_ = c.Wait()
	_, at = s.gateway(upstream.URL, "")
	s.rest("--admin", at)
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
		!strings.Contains(stderr, "stet keys bulk "+job.Job+" --admin "+at+" shows it") {
		t.Errorf("%s%s", stdout, stderr)
	}
	if j := s.until("it is over", over); j.Done != many {
		t.Errorf("%d done", j.Done)
	}
	s.all()
}

// Ctrl-C interrupts the job where the command itself does the work; given again it does the rest.
func TestInterruptedWork(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", many)
	p := s.command("keys", "release", "--store", "sqlite:stet.db", "--scope", "t1", "--now", "--reason", "tests", "--yes")
	s.until("it has begun", begun)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := p.ended(s, 1)
	half := s.until("it is there", func(*operate.Job) bool { return true }) // at once, not by its lease
	if !strings.Contains(stderr, fmt.Sprintf("stet: interrupted with %d records left; give the command again for the rest", half.Left)) ||
		half.State != operate.JobInterrupted || stdout != fmt.Sprintf("changed %d\n", half.Done) || half.Left == 0 {
		t.Errorf("%s%s, and it is %s with %d done, %d left", stdout, stderr, half.State, half.Done, half.Left)
	}
	s.rest("--store", "sqlite:stet.db")
}

// A job that an operator stops leaves what it has not come to as it is.
func TestStoppedJob(t *testing.T) {
	s := newShelf(t, "sqlite:stet.db", 10)
	jobs := operate.NewJobs()
	started, err := s.desk(jobs).Start(t.Context(), operate.Order{Expect: 10, Now: true, Reason: "tests",
		Selection: operate.Selection{Action: operate.ActRelease, Filter: operate.Parameters{"scope": "t1"}}})
	if err != nil {
		t.Fatal(err)
	}
	command := func(status exit, verb string, more ...string) string {
		t.Helper()
		args := append([]string{"keys", "bulk", verb, started.Job, "--store", "sqlite:stet.db"}, more...)
		out, errs := s.command(args...).ended(s, int(status))
		return out + errs
	}
	command(exitUsage, "stop")
	if said := command(exitFine, "stop", "--reason", "a doubt"); said != "it stops now; a moment ago 10 of 10 records were left\n" {
		t.Error(said)
	}
	if said := command(exitError, "stop", "--reason", "a doubt"); !strings.Contains(said, "It is being stopped already.") {
		t.Error(said)
	}
	working, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = jobs.Run(working) }() // its turn comes
	j := s.until("it is stopped", func(j *operate.Job) bool { return j.State == operate.JobStopped })
	end()
	<-ended
	if j.Done != 0 || j.Left != 10 {
		t.Errorf("%d done, %d left", j.Done, j.Left)
	}
	if said := command(exitFine, "report"); !strings.HasPrefix(said, "nothing failed") {
		t.Error(said)
	}
}

// jobGateway plays a gateway that counts n records, starts a job, and shows it as it is.
func jobGateway(t *testing.T, n operate.Count, sent *operate.Order, show func() operate.Job) string {
	return plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		doc := any(show())
		switch {
		case strings.HasSuffix(r.URL.Path, "/count"):
			doc = n
		case r.Method == http.MethodPost:
			if err := json.NewDecoder(r.Body).Decode(sent); err != nil {
				t.Error(err)
			}
			doc = operate.Started{Job: "bulk_1"}
		}
		_ = json.NewEncoder(w).Encode(doc) // the client is gone
	}))
}

// Who watches a job that another operator stops is told so.
func TestStoppedWhileWatched(t *testing.T) {
	var looks atomic.Int64
	at := jobGateway(t, operate.Count{Matching: 9}, new(operate.Order), func() operate.Job {
		j := operate.Job{Job: "bulk_1", State: operate.JobRunning, Total: 9, Left: 4, Done: 5}
		if looks.Add(1) > 5 {
			j.State = operate.JobStopped
		}
		return j
	})
	status, out, errs := ran(t, "keys", "release", "--scope", "t1", "--reason", "x", "--yes", "--admin", at)
	if status != exitError || out != "changed 5\n" ||
		!strings.Contains(errs, "an operator stopped the job, with 4 records left, which stay as they are; stet keys bulk bulk_1 --admin "+at+" shows it") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

// The records of an incident are ordered by its id, however many they are. One is not several.
func TestTheRecordsOfAnIncident(t *testing.T) {
	var sent operate.Order
	at := jobGateway(t, operate.Count{Matching: 1, States: map[string]int{"unknown": 1}}, &sent, func() operate.Job {
		return operate.Job{Job: "bulk_1", State: operate.JobCompleted, Total: 1, Left: 1}
	})
	status, _, errs := ran(t, "keys", "release", "--incident", "i_1", "--reason", "x", "--yes", "--admin", at)
	if status != exitFine || sent.Expect != 1 || sent.Incident != "i_1" || sent.IDs != nil || sent.Filter != nil ||
		!strings.HasPrefix(errs, "release 1 record (1 unknown; ") || !strings.Contains(errs, "\n1 was left as it is: ") {
		t.Errorf("%d, sent %+v: %s", status, sent, errs)
	}
}

// Where more match than one job takes, further jobs follow without another question, until one
// changes nothing. What matches after the change as before it is changed once.
func TestJobAfterJob(t *testing.T) {
	var sent operate.Order
	jobs := []operate.Job{{Job: "bulk_1", State: operate.JobCompleted, Total: 9, Done: 8, Left: 1}, {Job: "bulk_1", State: operate.JobCompleted, Total: 9, Left: 9}}
	started := 0
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		doc := any(operate.Count{Matching: 9, More: true})
		switch {
		case r.Method != http.MethodPost && started > 0:
			doc = jobs[started-1]
		case r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/count"):
			_ = json.NewDecoder(r.Body).Decode(&sent)
			doc = operate.Started{Job: "bulk_1"}
			started++
		}
		_ = json.NewEncoder(w).Encode(doc)
	}))
	status, out, errs := ran(t, "keys", "bulk", "hand", "--scope", "t1", "--to", "ben", "--yes", "--admin", at)
	if status != exitFine || started != 1 || out != "changed 8\n" || !strings.Contains(errs, "hand the first 9 records") || !strings.Contains(errs, "further ones match, and are as they were") {
		t.Errorf("what matches still: %d, %d jobs: %s%s", status, started, out, errs)
	}
	started = 0
	status, out, errs = ran(t, "keys", "release", "--scope", "t1", "--reason", "x", "--yes", "--admin", at)
	if status != exitFine || started != 2 || out != "changed 8\nchanged 0\n" || strings.Count(errs, "release 9 records, and then further ones") != 1 {
		t.Errorf("%d, %d jobs: %s%s", status, started, out, errs)
	}
}

// An incident of which a job has left nothing is no error of the command that ended it.
func TestAnIncidentThatAJobEnds(t *testing.T) {
	counts := 0
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		doc := any(operate.Job{Job: "bulk_1", State: operate.JobCompleted, Total: 9, Done: 9})
		switch {
		case strings.HasSuffix(r.URL.Path, "/count"):
			if counts++; counts > 1 {
				w.WriteHeader(http.StatusNotFound)
				doc = operate.Problem{Status: 404, Code: "not-found"}
			} else {
				doc = operate.Count{Matching: 9, More: true}
			}
		case r.Method == http.MethodPost:
			doc = operate.Started{Job: "bulk_1"}
		}
		_ = json.NewEncoder(w).Encode(doc) // the client is gone
	}))
	status, out, errs := ran(t, "keys", "release", "--incident", "i_1", "--reason", "x", "--yes", "--admin", at)
	if status != exitFine || out != "changed 9\n" || counts != 2 {
		t.Errorf("%d, counted %d times: %s%s", status, counts, out, errs)
	}
}
