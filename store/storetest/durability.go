package storetest

import (
	"bufio"
	"context"
	"errors"
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

var durabilityLaws = []law{
	{"reopen", "a durable store has after Close and Open what it had before", reopen},
	{"two handles", "two handles of a shared store are one store", twoHandles},
	{"kill -9", "what a durable store acknowledged is there after the process was killed, whole", killNine},
}

func reopen(t *testing.T, x *bench) { // S2-03
	if !x.Durable {
		t.Skip("the store does not promise to outlive its process")
	}
	first := x.Open(t, x.dir+"/own", x.clock.Now)
	r := full()
	r.State = stet.Running
	made, err := first.Create(x.ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	h := made.Head
	h.Version, h.DueIn = draw(), time.Hour
	completed(&h)
	h.Status = r.Status
	head, err := first.Replace(x.ctx, made.Version, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, first)
	second := x.Open(t, x.dir+"/own", x.clock.Now)
	defer closeStore(t, second)
	got, err := second.Get(x.ctx, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := stet.Record{Head: head, Body: made.Body}
	want.AsOf = got.AsOf
	sameRecord(t, got, want)
	x.pass(2 * time.Hour)
	if heads, err := second.Due(x.ctx, stet.Query{}); !x.ServerClock && (err != nil || len(heads) != 1) {
		t.Errorf("after reopening %d are due (%v), want 1", len(heads), err)
	}
}

func twoHandles(t *testing.T, x *bench) { // T26, CC-02
	if !x.Shared {
		t.Skip("the store does not promise to be shared")
	}
	handles := []stet.Store{x.store, x.open(), x.open()}
	var wg sync.WaitGroup
	for k := range 20 {
		won := make([]bool, 12)
		for i := range won {
			wg.Go(func() {
				_, err := handles[i%len(handles)].Create(x.ctx, running(key(k)))
				won[i] = err == nil
				if err != nil && !errors.Is(err, stet.ErrExists) {
					t.Errorf("Create: %v", err)
				}
			})
		}
		wg.Wait()
		winners := 0
		for _, w := range won {
			if w {
				winners++
			}
		}
		if winners != 1 {
			t.Fatalf("%d handles created one record", winners)
		}
		got, err := handles[k%len(handles)].Get(x.ctx, running(key(k)).ID)
		if err != nil {
			t.Fatal(err)
		}
		h := got.Head
		h.Version, h.DueIn = draw(), 0
		if _, err := handles[(k+1)%len(handles)].Replace(x.ctx, got.Version, h, nil); err != nil {
			t.Fatalf("one handle does not replace what another made: %v", err)
		}
	}
	x.pass(10 * time.Millisecond)
	for i, s := range handles {
		if heads, err := s.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 20 {
			t.Errorf("handle %d finds %d due (%v), want 20", i, len(heads), err)
		}
	}
}

// childDir is the environment variable that makes a test binary a child that writes into the store of that directory.
const childDir = "STET_STORETEST_CHILD"

func killNine(t *testing.T, x *bench) { // I5, W28, W29, SE-02
	if !x.Durable {
		t.Skip("the store does not promise to outlive its process")
	}
	rounds := 3
	if os.Getenv("STET_SOAK") != "" {
		rounds = 200
	}
	acknowledged := map[int]bool{}
	root, _, _ := strings.Cut(t.Name(), "/")
	for round := range rounds {
		runChild(t, root, x.dir+"/killed", round, acknowledged)
	}
	s := x.Open(t, x.dir+"/killed", nil)
	defer closeStore(t, s)
	for i := range acknowledged {
		got, err := s.Get(x.ctx, stet.ID{Scope: "tenant", Key: stet.Key(key(i))})
		if err != nil || got.State != stet.Completed || got.Response == nil || string(got.Response.Body) != strings.Repeat(key(i), 50) {
			t.Errorf("record %d was acknowledged, and is now %v (%v)", i, got.State, err)
		}
	}
	if len(acknowledged) == 0 {
		t.Error("the child acknowledged nothing: the law was not put to the test")
	}
}

// runChild lets a child write for a while, and kills it.
func runChild(t *testing.T, root, dir string, round int, acknowledged map[int]bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+root+"$")
	child.Env = append(os.Environ(), childDir+"="+dir, "STET_STORETEST_FROM="+strconv.Itoa(round*1_000_000))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); {
		i, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Logf("child: %s", lines.Text())
			continue
		}
		acknowledged[i] = true
		if n++; n == 30+17*round {
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait()
}

// writeForEver is the child: it completes one record after another, from several goroutines, and says so after each.
func writeForEver(t *testing.T, b Backend, dir string) {
	s := b.Open(t, dir, nil)
	from, err := strconv.Atoi(os.Getenv("STET_STORETEST_FROM"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := from + w; ; i += 4 {
				made, err := s.Create(t.Context(), running(key(i)))
				if err != nil {
					t.Error(err)
					return
				}
				h := made.Head
				h.Version = draw()
				completed(&h)
				body := &stet.Body{Response: &stet.Response{Status: 201, Body: []byte(strings.Repeat(key(i), 50))}}
				if _, err := s.Replace(t.Context(), made.Version, h, body); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fmt.Println(i)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
