package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// env says that a process is a life of a program, and which.
const env = "STET_CRASH"

// life is one process: from its start to its death, or to the end of its input.
type life struct {
	Program, Kind, DSN, Provider string

	At      string // the point to die at, by name ...
	After   int    // ... or by number; with neither it lives on
	Trace   string // file that the points are written to
	Resumed bool   // not the first
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

func (l *life) points() (*points, error) {
	p := &points{seen: map[string]int{}, at: l.At, after: l.After, armed: l.Resumed}
	if l.Trace == "" {
		return p, nil
	}
	var err error
	p.trace, err = os.OpenFile(l.Trace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return p, err
}

// live serves, says where, and goes on until its input ends.
func (l *life) live(ctx context.Context, programs []Program) error {
	p, err := l.points()
	if err != nil {
		return err
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make([]error, len(s.Loops)+1)
	var running sync.WaitGroup
	for i, loop := range s.Loops {
		running.Go(func() { ended[i] = loop(ctx) })
	}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { p.arm(); s.Handler.ServeHTTP(rw, r) })}
	running.Go(func() { ended[len(s.Loops)] = server.Serve(listener) })
	fmt.Println("http://" + listener.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	stop()
	err = errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
	running.Wait()
	for _, e := range ended {
		if !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}
