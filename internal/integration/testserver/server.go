// Package testserver starts real, private, throw-away servers for tests: Postgres, MariaDB, Redis
// and Redis Cluster, from the packages of Debian, on free ports of the loopback interface, in
// temporary directories.
//
// A server is started by the first test that asks for it and shared by the tests of the package;
// tests that stop, freeze or kill one start their own (the functions with New in their name). All
// of them end with the process, whatever ends it.
//
// Where a server is not installed the test is skipped, and says what to install; with
// REQUIRE_SERVERS set it fails.
package testserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every start; a machine that is busy takes seconds.
const patience = 60 * time.Second

// Server is a process that serves on Addr.
type Server struct {
	Addr string // host:port

	kind  kind
	dir   string
	args  []string
	owner *syscall.Credential

	mu   sync.Mutex
	cmd  *exec.Cmd
	out  *bytes.Buffer
	gone chan struct{}
}

// kind is a program and its manners.
type kind struct {
	name    string         // of the directory
	program string         // absolute
	stop    syscall.Signal // to end it cleanly
	death   syscall.Signal // sent by the kernel when this process dies
	ready   func(addr string) error
}

// missing skips, or fails where servers are required.
func missing(t testing.TB, what, install string) {
	t.Helper()
	text := fmt.Sprintf("%s is not installed: apt-get install %s", what, install)
	if os.Getenv("REQUIRE_SERVERS") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}

// look finds a program, also where a plain user's PATH does not lead.
func look(patterns ...string) string {
	for _, p := range patterns {
		if found, err := filepath.Glob(p); err == nil && len(found) > 0 {
			return found[len(found)-1] // the newest version
		}
		if found, err := exec.LookPath(p); err == nil {
			return found
		}
	}
	return ""
}

// credential is the user a server runs as: those that refuse root have one of their own.
func credential(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

const prefix = "stet-test-"

// swept removes once what killed runs have left.
var swept = sync.OnceFunc(func() {
	var left []string
	for _, in := range []string{os.TempDir(), memory()} {
		here, _ := filepath.Glob(filepath.Join(in, prefix+"*"))
		left = append(left, here...)
	}
	for _, dir := range left {
		parts := strings.Split(filepath.Base(dir), "-")
		pid, err := strconv.Atoi(parts[len(parts)-2])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
})

// memory is a directory in memory, where syncing costs nothing; where there is none, that of
// temporary files.
func memory() string {
	const ram = "/dev/shm"
	if info, err := os.Stat(ram); err == nil && info.IsDir() {
		return ram
	}
	return os.TempDir()
}

// directory makes a fresh one that belongs to owner. Its name tells which process it is of.
func directory(t testing.TB, in, name string, owner *syscall.Credential) string {
	t.Helper()
	swept()
	dir, err := os.MkdirTemp(in, fmt.Sprintf("%s%s-%d-", prefix, name, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// prepare runs a program that makes a data directory.
func prepare(t testing.TB, dir string, owner *syscall.Credential, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
}

// Start starts a stopped server again, on the same port and data, and returns when it serves.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// TryStart is Start for a server that may be damaged.
func (s *Server) TryStart() error { return s.start() }

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &bytes.Buffer{}
	cmd := exec.Command(s.kind.program, s.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true, Pdeathsig: s.kind.death}
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	s.cmd, s.out, s.gone = cmd, out, gone
	return s.await()
}

// await asks until the server serves. It asks every few milliseconds: there is nothing to wait on.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.kind.ready(s.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-s.gone:
			return fmt.Errorf("%s ended while it was starting:\n%s", s.kind.name, s.out)
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve after %s: %w", s.kind.name, patience, err)
		case <-tick.C:
		}
	}
}

// Stop ends the server cleanly. Its data stay.
func (s *Server) Stop(t testing.TB) { t.Helper(); s.end(t, s.kind.stop) }

// Kill ends it as a crash would: at once, with nothing written any more.
func (s *Server) Kill(t testing.TB) { t.Helper(); s.end(t, syscall.SIGKILL) }

func (s *Server) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if !s.send(signal) {
		t.Fatalf("%s did not end within %s:\n%s", s.kind.name, patience, s.out)
	}
}

// send reports whether the server has ended. A clean end is asked of the process, a crash is that
// of its whole group.
func (s *Server) send(signal syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return true
	}
	pid := s.cmd.Process.Pid
	if signal == syscall.SIGKILL {
		pid = -pid
	}
	_ = syscall.Kill(pid, signal)
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-s.gone:
		s.cmd = nil
		return true
	case <-t.C:
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.gone
		s.cmd = nil
		return false
	}
}

// Pause freezes the server with all its children: it takes connections, and answers none. Resume
// lets it go on.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	pids := s.signalAll(t, syscall.SIGSTOP)
	until(t, "the server stands still", func() bool { return !slices.ContainsFunc(pids, runs) })
}

// runs reports whether a process is there and not stopped: a busy machine takes its time to stop
// one.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "T") && !strings.HasPrefix(rest, "Z")
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) { t.Helper(); s.signalAll(t, syscall.SIGCONT) }

// signalAll also reaches children in groups of their own, which Postgres makes of its backends.
func (s *Server) signalAll(t testing.TB, signal syscall.Signal) (pids []int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		t.Fatalf("%s does not run", s.kind.name)
	}
	pids = append(children(s.cmd.Process.Pid), s.cmd.Process.Pid)
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
	return pids
}

func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), children(child)...)
			}
		}
	}
	return all
}

// Log returns what the server has printed; call it when the server has ended.
func (s *Server) Log() string { return s.out.String() }

// Dir is the server's directory.
func (s *Server) Dir() string { return s.dir }

// close ends the server, and removes its directory.
func (s *Server) close() {
	s.send(s.kind.stop)
	if err := os.RemoveAll(s.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "testserver:", err)
	}
}

// shared starts a server for all tests of the process. It ends with the process; [Main] ends it in
// order.
type shared struct {
	mu     sync.Mutex
	server *Server
}

var all struct {
	mu      sync.Mutex
	servers []*Server
}

func (s *shared) get(t testing.TB, make func(t testing.TB) *Server) *Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		s.server = make(t)
		remember(s.server)
	}
	return s.server
}

func remember(s *Server) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.servers = append(all.servers, s)
}

// Main runs the tests and then ends the shared servers: for TestMain, as
// os.Exit(testserver.Main(m)).
func Main(m interface{ Run() int }) int {
	defer func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		var wg sync.WaitGroup
		for _, s := range all.servers {
			wg.Go(s.close)
		}
		wg.Wait()
	}()
	return m.Run()
}

// own makes a server that ends with the test.
func own(t testing.TB, s *Server) *Server {
	t.Cleanup(func() {
		s.mu.Lock()
		running := s.cmd != nil
		s.mu.Unlock()
		if running {
			s.Resume(t) // a frozen server does not end
		}
		s.close()
	})
	return s
}
