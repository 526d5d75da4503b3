package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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

// start starts a process of this life: this test's own program, which is told by its environment.
func (l *life) start(ctx context.Context) (*crashpoint.Process, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else each good end takes a second
	return crashpoint.Start(ctx, cmd)
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
