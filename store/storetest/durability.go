package storetest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var durabilityLaws = []law{
	{"reopen", "a durable store has the same records after Close and Open", reopen},
	{"two handles", "two handles of a shared store see the same records", twoHandles},
	{"processes",
		"if several processes create a record, exactly one succeeds, and none overwrites a version that it has not seen",
		processes},
	{"kill -9",
		"after the process is killed, a durable store has every write it acknowledged, no partial write, and no lock left",
		killNine},
}

func reopen(t testing.TB, x *bench) { // S2-03
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
	if x.ServerClock {
		return
	}
	x.pass(2 * time.Hour)
	if heads, _, err := second.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 1 {
		t.Errorf("after reopening %d are due (%v), want 1", len(heads), err)
	}
}

func twoHandles(t testing.TB, x *bench) { // T26, CC-02
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
		if heads, _, err := s.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 20 {
			t.Errorf("handle %d finds %d due (%v), want 20", i, len(heads), err)
		}
	}
}

func killNine(t testing.TB, x *bench) { // I5, W28, W29, SE-02
	if !x.Durable {
		t.Skip("the store does not promise to outlive its process")
	}
	rounds := 3
	if os.Getenv("STET_SOAK") != "" {
		rounds = 200
	}
	dir := x.dir + "/killed"
	if x.Shared { // the killed process was not the last one that had the store open
		defer closeStore(t, x.Open(t, dir, nil))
	}
	acknowledged := map[int]bool{}
	for round := range rounds {
		last := killWriter(t, dir, round, acknowledged)
		s := x.Open(t, dir, nil)
		for i := round * perRound; i < last+2*writers; i++ {
			afterKill(t, s, i, acknowledged[i])
		}
		closeStore(t, s)
	}
	s := x.Open(t, dir, nil)
	defer closeStore(t, s)
	for i := range acknowledged {
		afterKill(t, s, i, true)
	}
	if len(acknowledged) == 0 {
		t.Error("the child acknowledged nothing: the law was not put to the test")
	}
}

// killWriter kills a child process while it writes, and returns the last record that it
// acknowledged.
func killWriter(t testing.TB, dir string, round int, acknowledged map[int]bool) (last int) {
	t.Helper()
	left := 30 + 17*round
	c := startChild(t, childWrites, dir, round*perRound)
	c.read(func(i int) bool {
		acknowledged[i] = true
		last = max(last, i)
		left--
		return left > 0
	})
	c.kill()
	return last
}

// afterKill checks what a killed process left of one record, and writes to it: no lock of the
// killed process may be in the way.
func afterKill(t testing.TB, s stet.Store, i int, acknowledged bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := s.Get(ctx, running(key(i)).ID)
	whole := err == nil && got.State == stet.Completed && got.Response != nil && string(got.Response.Body) == answer(i)
	switch {
	case whole:
	case acknowledged:
		t.Errorf("record %d was acknowledged, and is now %v (%v)", i, got.State, err)
	case errors.Is(err, stet.ErrNotFound):
		// What the killed process had sent to a server may arrive only now.
		if _, err := s.Create(ctx, running(key(i))); err != nil && !errors.Is(err, stet.ErrExists) {
			t.Errorf("record %d was not made by the dead process, and cannot be: %v", i, err)
		}
	case err != nil, got.State != stet.Running, got.Response != nil:
		t.Errorf("record %d is half written: %v (%v)", i, got.State, err)
	default:
		h := got.Head
		h.Version, h.State, h.DueIn = draw(), stet.Unknown, 0
		switch _, err := s.Replace(ctx, got.Version, h, nil); {
		case errors.Is(err, stet.ErrStale):
			afterKill(t, s, i, true) // the last word of the killed process has arrived since the look
		case err != nil:
			t.Errorf("record %d is still held by the dead process: %v", i, err)
		}
	}
}

func processes(t testing.TB, x *bench) { // T26, CC-02, I1, I3
	if !x.Shared {
		t.Skip("the store does not promise to be shared")
	}
	dir := x.dir + "/raced"
	s := x.Open(t, dir, nil)
	defer closeStore(t, s)
	if _, err := s.Create(x.ctx, running("tally")); err != nil {
		t.Fatal(err)
	}
	won := map[int]int{}
	var mu sync.Mutex
	win := func(i int) bool { mu.Lock(); defer mu.Unlock(); won[i]++; return true }
	var wg sync.WaitGroup
	for range 2 {
		c := startChild(t, childRaces, dir, 0)
		wg.Go(func() { c.read(win); c.wait() })
	}
	race(t, s, func(i int) { win(i) })
	wg.Wait()
	for i := range raced {
		if won[i] != 1 {
			t.Errorf("record %d was created by %d processes", i, won[i])
		}
	}
	tally, err := s.Get(x.ctx, running("tally").ID)
	if err != nil || tally.Attempt != 1+3*raced {
		t.Errorf("three processes added %d each, and the tally is %d (%v)", raced, tally.Attempt-1, err)
	}
}

const raced = 40 // records

// race creates the records that do not exist yet, and adds one to the tally for each of them.
func race(t testing.TB, s stet.Store, won func(i int)) {
	for i := range raced {
		_, err := s.Create(t.Context(), running(key(i)))
		switch {
		case err == nil:
			won(i)
		case !errors.Is(err, stet.ErrExists):
			t.Error(err)
		}
		if err := add(t.Context(), s, running("tally").ID, nil); err != nil {
			t.Error(err)
			return
		}
	}
}
