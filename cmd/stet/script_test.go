package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The sessions of testdata/script are what people type, with what they see.
//
//	exits 2 stet …      the command ends with that very status
//	upstream            starts the sample API: $UPSTREAM
//	gateway ARG…        starts stet gateway: $GATEWAY and $ADMIN are its URLs, $LISTEN and
//	                    $ADMINADDR its addresses
//	signal TERM|HUP     sends it a signal
//	insist TERM         sends it a signal until it has ended
//	logged REGEXP       waits until a line of its log matches
//	ended 0             waits until it has ended, with that status; its log is then in gateway.log
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(10 * time.Minute), // of all sessions together, on a slow machine
		Setup: func(e *testscript.Env) error {
			e.Values[gatewayKey{}] = &gatewayProcess{}
			e.Setenv("TMPDIR", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return ownFiles(e.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "upstream": cmdUpstream, "gateway": cmdGateway, "signal": cmdSignal, "insist": cmdInsist,
			"logged": cmdLogged, "ended": cmdEnded,
		},
	})
}

// ownFiles makes the files of a session its user's alone: some are secrets, which are refused when
// others may read them.
func ownFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
}

func TestMain(m *testing.M) {
	// A process that was built with -race sleeps for a second before it ends, unless it is told not
	// to.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// Documents and scripts wait for processes of theirs more than they work; -parallel still
	// overrides it.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"stet": main})
}

// patience is how long anything may take before the test gives up; nothing waits that long when all
// is well.
const patience = time.Minute

func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("exits STATUS COMMAND [ARG]...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var status *exec.ExitError
		if !errors.As(err, &status) {
			ts.Fatalf("%v", err)
		}
		got = status.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s ended with %d, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

func cmdUpstream(ts *testscript.TestScript, _ bool, _ []string) {
	srv := httptest.NewServer((&paymentsAPI{}).handler())
	ts.Defer(srv.Close)
	ts.Setenv("UPSTREAM", srv.URL)
}

type gatewayKey struct{}

// gatewayProcess is a stet gateway that runs beside a script.
type gatewayProcess struct {
	cmd  *exec.Cmd
	gone chan struct{}
	err  error // how it ended; valid once gone

	mu   sync.Mutex
	log  bytes.Buffer
	more chan struct{} // closed and replaced with each line
}

func gatewayOf(ts *testscript.TestScript) *gatewayProcess {
	return ts.Value(gatewayKey{}).(*gatewayProcess)
}

func cmdGateway(ts *testscript.TestScript, _ bool, args []string) {
	g := gatewayOf(ts)
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE", "STET_CONFIG", "STET_STORE", "STET_LISTEN",
		"STET_ADMIN", "STET_PROFILE", "STET_PEPPER_FILE", "STET_ENCRYPTION_KEYS_FILE", "STET_LOG_LEVEL", "STET_UPSTREAM"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	ts.Check(g.start(ts.MkAbs("."), env, append([]string{"gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--upstream", ts.Getenv("UPSTREAM")}, args...)...))
	ts.Defer(func() {
		_ = g.cmd.Process.Kill()
		<-g.gone
	})
	ready := g.wait(regexp.MustCompile(`"msg":"ready"`))
	var said struct{ Listen, Admin string }
	if ready == "" || json.Unmarshal([]byte(ready), &said) != nil {
		ts.Fatalf("the gateway did not become ready:\n%s", g.text())
	}
	ts.Setenv("GATEWAY", "http://"+said.Listen)
	ts.Setenv("ADMIN", "http://"+said.Admin)
	ts.Setenv("LISTEN", said.Listen)
	ts.Setenv("ADMINADDR", said.Admin)
}

// start runs this test binary as stet: see TestMain.
func (g *gatewayProcess) start(dir string, env []string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g.gone, g.more = make(chan struct{}), make(chan struct{})
	g.log.Reset()
	g.cmd = &exec.Cmd{Path: self, Args: append([]string{"stet"}, args...), Dir: dir, Env: env}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := g.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(g.gone)
		g.follow(out)
		g.err = g.cmd.Wait()
	}()
	return nil
}

func (g *gatewayProcess) follow(out io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		g.mu.Lock()
		g.log.Write(buf[:n])
		close(g.more)
		g.more = make(chan struct{})
		g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (g *gatewayProcess) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.String()
}

// wait returns the first line that matches, or "" if none came.
func (g *gatewayProcess) wait(re *regexp.Regexp) string {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		g.mu.Lock()
		text, more := g.log.String(), g.more
		g.mu.Unlock()
		for line := range strings.Lines(text) {
			if strings.HasSuffix(line, "\n") && re.MatchString(line) {
				return line
			}
		}
		select {
		case <-more:
		case <-g.gone:
			return ""
		case <-late.C:
			return ""
		}
	}
}

func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(gatewayOf(ts).cmd.Process.Signal(signalNames[args[0]]))
}

var signalNames = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}

// cmdInsist sends a signal again and again: what comes within a second of the first counts as one
// with it.
func cmdInsist(ts *testscript.TestScript, _ bool, args []string) {
	g := gatewayOf(ts)
	again, late := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer again.Stop()
	for {
		select {
		case <-g.gone:
			return
		case <-late:
			ts.Fatalf("the gateway goes on:\n%s", g.text())
		case <-again.C:
			_ = g.cmd.Process.Signal(signalNames[args[0]]) // it may have ended just now
		}
	}
}

func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	g := gatewayOf(ts)
	if neg {
		if regexp.MustCompile(args[0]).MatchString(g.text()) {
			ts.Fatalf("%s is in the log:\n%s", args[0], g.text())
		}
		return
	}
	if g.wait(regexp.MustCompile(args[0])) == "" {
		ts.Fatalf("%s is not in the log:\n%s", args[0], g.text())
	}
}

func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	g := gatewayOf(ts)
	select {
	case <-g.gone:
	case <-time.After(patience):
		ts.Fatalf("the gateway goes on:\n%s", g.text())
	}
	if got := g.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != args[0] {
		ts.Fatalf("the gateway ended with %d, want %s (%v):\n%s", got, args[0], g.err, g.text())
	}
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs("."), "gateway.log"), []byte(g.text()), 0o600))
	fmt.Fprint(ts.Stderr(), g.text())
}
