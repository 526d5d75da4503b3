package storetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// Some laws need another process, which runs the same test binary. Its environment says what it
// does, in which directory, and from which record on. It prints the numbers of the records on its
// standard output.
const (
	childDo   = "STET_STORETEST_CHILD"
	childDir  = "STET_STORETEST_DIR"
	childFrom = "STET_STORETEST_FROM"

	childWrites = "writes"
	childRaces  = "races"
)

type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startChild starts the test that t belongs to in another process, which is killed when t ends.
func startChild(t testing.TB, do, dir string, from int) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	root, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+root+"$")
	cmd.Env = append(os.Environ(), childDo+"="+do, childDir+"="+dir, childFrom+"="+strconv.Itoa(from))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{t, cmd, bufio.NewScanner(out)}
}

// read calls visit with each number that the child prints, until visit returns false or the child
// ends.
func (c *child) read(visit func(i int) bool) {
	for c.lines.Scan() {
		text := c.lines.Text()
		i, err := strconv.Atoi(text)
		if err != nil {
			if text != "PASS" {
				c.t.Logf("child: %s", text)
			}
			continue
		}
		if !visit(i) {
			return
		}
	}
}

func (c *child) wait() {
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("child: %v", err)
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// beChild does the work of a child, and reports whether this process is one.
func beChild(t testing.TB, b Backend) bool {
	do := os.Getenv(childDo)
	if do == "" {
		return false
	}
	from, err := strconv.Atoi(os.Getenv(childFrom))
	if err != nil {
		t.Fatal(err)
	}
	s := b.Open(t, os.Getenv(childDir), nil)
	switch do {
	case childWrites:
		writeForEver(t, s, from)
	case childRaces:
		race(t, s, say)
		closeStore(t, s)
	}
	return true
}

var stdout sync.Mutex

func say(i int) {
	stdout.Lock()
	defer stdout.Unlock()
	fmt.Println(i)
}

const (
	writers  = 4
	perRound = 1_000_000
)

func answer(i int) string { return strings.Repeat(key(i), 50) }

// writeForEver completes record after record, in several goroutines, and prints the number of each
// one that is acknowledged.
func writeForEver(t testing.TB, s stet.Store, from int) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := from + w; ; i += writers {
				made, err := s.Create(t.Context(), running(key(i)))
				if err != nil {
					t.Error(err)
					return
				}
				h := made.Head
				h.Version = draw()
				completed(&h)
				body := &stet.Body{Response: &stet.Response{Status: 201, Body: []byte(answer(i))}}
				if _, err := s.Replace(t.Context(), made.Version, h, body); err != nil {
					t.Error(err)
					return
				}
				say(i)
			}
		})
	}
	wg.Wait()
}
