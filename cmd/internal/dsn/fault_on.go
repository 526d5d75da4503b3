//go:build stetfault

package dsn

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

const faultsBuilt = true

// faultSocket names the unix socket a faulty store is steered through.
// internal/integration/blackbox/README.md has the verbs.
const faultSocket = "STET_FAULT_SOCKET"

// faults returns a clock that can be moved, and what makes any store fail on demand. The clock of a
// store on a server is the server's: it cannot be moved.
func (d DSN) faults() (clock func() time.Time, wrap func(stet.Store) (stet.Store, func() error, error)) {
	s := &steering{fixed: d.Shared()}
	return s.now, s.wrap
}

// steering is a faulty store and the socket that steers it.
type steering struct {
	fixed bool         // the clock is a server's
	ahead atomic.Int64 // of the clock, in nanoseconds
	store *faulty.Store
	work  sync.WaitGroup
}

func (s *steering) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *steering) wrap(inner stet.Store) (stet.Store, func() error, error) {
	path := os.Getenv(faultSocket)
	if path == "" {
		return nil, nil, errors.New("a fault+ store is steered through the unix socket that " + faultSocket + " names")
	}
	_ = os.Remove(path) // of a predecessor that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, nil, fmt.Errorf("the fault socket: %w", err)
	}
	s.store = faulty.New(inner, 1)
	ctx, cancel := context.WithCancel(context.Background())
	s.work.Go(func() { s.accept(ctx, l) })
	return s.store, func() error {
		cancel()
		defer s.work.Wait()
		return l.Close()
	}, nil
}

func (s *steering) accept(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() { s.serve(ctx, c) })
	}
}

// serve answers each line with one line of JSON, when it is in force, until ctx ends.
func (s *steering) serve(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	out := json.NewEncoder(c)
	for in := bufio.NewScanner(c); in.Scan(); {
		answer := map[string]any{"ok": true}
		if err := s.do(in.Text()); err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if out.Encode(answer) != nil {
			return
		}
	}
}

func (s *steering) do(line string) error {
	verb, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch verb {
	case "down":
		s.store.Down()
	case "up":
		s.store.Up()
	case "slow", "advance":
		d, err := time.ParseDuration(arg)
		if err != nil || d < 0 {
			return fmt.Errorf("%s needs a duration such as 500ms", verb)
		}
		switch {
		case verb == "slow":
			s.store.Slow(d)
		case s.fixed:
			return errors.New("the clock is the server's")
		default:
			s.ahead.Add(int64(d))
		}
	case "fail-complete":
		on, err := strconv.ParseBool(arg)
		if err != nil {
			return errors.New("fail-complete needs true or false")
		}
		s.store.FailComplete(on)
	case "lose-replies":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return errors.New("lose-replies needs a whole number")
		}
		s.store.LoseReplies(n)
	case "corrupt":
		id, err := readID(arg)
		if err != nil {
			return err
		}
		s.store.Corrupt(id)
	default:
		return fmt.Errorf("there is no verb %q", verb)
	}
	return nil
}

// readID reads a scope and a key, both quoted as in Go.
func readID(arg string) (stet.ID, error) {
	var scope, key string
	if _, err := fmt.Sscanf(arg, "%q %q", &scope, &key); err != nil {
		return stet.ID{}, errors.New(`corrupt needs a scope and a key, as in "default" "k1"`)
	}
	return stet.ID{Scope: stet.Scope(scope), Key: stet.Key(key)}, nil
}
