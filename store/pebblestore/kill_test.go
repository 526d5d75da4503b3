package pebblestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// killed names the directory in which a process works until it is killed.
const killed = "STET_PEBBLE_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killed); dir != "" {
		fmt.Fprintln(os.Stderr, endless(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const callers = 16

// endless makes and completes keys without end, and says so after each: "+key" and "=key".
func endless(dir string) error {
	s, err := Open(dir, Config{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range callers {
		go func() {
			for {
				key := rand.Uint64()
				r := running(fmt.Sprintf("%016x", key))
				_, err := s.Create(context.Background(), r)
				if err == nil {
					_, err = fmt.Printf("+%s\n", string(r.Key))
				}
				if err == nil {
					_, err = s.Replace(context.Background(), r.Version, completed(r.Head), &stet.Body{Response: &stet.Response{Status: 201, Body: []byte(r.Key)}})
				}
				if err == nil {
					_, err = fmt.Printf("=%s\n", string(r.Key))
				}
				if err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// I4: what a process has said is stored, is there when the process has been killed at any instant;
// and each record is in the lists of its state, and in no other.
func TestKilledAtAnyInstant(t *testing.T) {
	lives := 5
	if os.Getenv("STET_SOAK") != "" {
		lives = 300
	}
	dir, said := t.TempDir(), map[stet.Key]stet.State{}
	for life := range lives {
		watch(t, dir, rand.IntN(3000), said)
		check(t, dir, said, (life+1)*callers)
	}
	if len(said) == 0 {
		t.Error("no life has stored a key")
	}
}

// watch lets a process live until it has said so many lines.
func watch(t *testing.T, dir string, lines int, said map[stet.Key]stet.State) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killed+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // what it said before it died has been read
		}
		if err != nil {
			t.Fatal(err)
		}
		key := stet.Key(strings.TrimSpace(line[1:]))
		if said[key] = stet.Running; line[0] == '=' {
			said[key] = stet.Completed
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
}

// check compares what is there with what was said. Of each life, what every caller was at may have
// been stored without a word.
func check(t *testing.T, dir string, said map[stet.Key]stet.State, unsaid int) {
	t.Helper()
	s, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[stet.Key]stet.State{}
	for _, state := range []stet.State{stet.Running, stet.Completed} {
		for q := (stet.Query{States: []stet.State{state}, Limit: 500}); ; {
			heads, next, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range heads {
				if listed[h.Key] != 0 || h.State != state {
					t.Errorf("%s is %s, and in the list of %s", h.Key, h.State, state)
				}
				listed[h.Key] = h.State
			}
			if q.After = next; next == "" {
				break
			}
		}
	}
	for key, was := range said {
		r, err := s.Get(t.Context(), stet.ID{Scope: "tenant", Key: key})
		switch is := r.State; {
		case err != nil, is != was && is != stet.Completed, listed[key] != is:
			t.Errorf("%s was said to be %s, and is %s, listed as %s: %v", key, was, is, listed[key], err)
		case is == stet.Completed && string(r.Response.Body) != string(key):
			t.Errorf("%s has the body %q", key, r.Response.Body)
		}
	}
	if n := len(listed) - len(said); n < 0 || n > unsaid {
		t.Errorf("%d records, and %d were said to be stored", len(listed), len(said))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
