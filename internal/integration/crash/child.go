package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

// env says that a process is a life of a program, and which.
const env = "STET_CRASH"

// life is one process: from its start to its death, or to the end of its input.
type life struct {
	Program, Kind, DSN, Provider string

	At      string // the point to die at, by name ...
	After   int    // ... or by number; with neither it lives on
	Resumed bool   // not the first
}

// start starts program as this life, which it is told by its environment.
func (l *life) start(ctx context.Context, program string) (*crashpoint.Process, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	// A process with the race detector sleeps for a second before it ends, unless it is told not to.
	cmd.Env = append(os.Environ(), env+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return crashpoint.Start(ctx, cmd)
}

// built builds this test's program without the race detector, with which a start takes ten times as long. Lives that nobody
// ends run the test's own program, and have it.
func built(dir string) (program string, err error) {
	program = filepath.Join(dir, "crash.test")
	if said, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	return program, nil
}

// Main is for TestMain: a test starts its own binary again, to be killed.
func Main(m *testing.M, programs []Program) int {
	text := os.Getenv(env)
	if text == "" {
		return testserver.Main(m)
	}
	var l life
	err := json.Unmarshal([]byte(text), &l)
	if err == nil {
		err = l.live(context.Background(), programs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// live serves, says where, and goes on until its input ends.
func (l *life) live(ctx context.Context, programs []Program) error {
	ctx, stop := crashpoint.Attach(ctx, os.Stdin)
	defer stop()
	p := &crashpoint.Points{Out: os.Stdout, At: l.At, Number: l.After}
	if l.Resumed { // else its first request arms it: a program that dies while it starts has not begun to do anything
		p.Arm()
	}
	kind := Kinds[slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == l.Kind })]
	w, err := newWorld(ctx, kind, l.DSN, l.Provider, p)
	if err != nil {
		return err
	}
	w.Every, w.Lease = longLease, longLease
	if l.Resumed {
		w.Every = shortLease / 10
	}
	if l.At != "" || l.After > 0 {
		w.Lease = shortLease
	}
	s, err := programs[slices.IndexFunc(programs, func(p Program) bool { return p.Name == l.Program })].Serve(w)
	if err != nil {
		return err
	}
	return crashpoint.Serve(ctx, os.Stdout, p.Handler(s.Handler), s.Loops...)
}
