package redis

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/redisstore"
)

// A replica is cut off, or stands still; keys are begun meanwhile; the master is killed, and the
// replica takes its place: no key is granted twice, whatever became of which write (B01, I1, W11).
func TestFailoverGrantsNothingTwice(t *testing.T) {
	tier.Campaign(t, "what is granted before a failover differs from run to run")
	rounds := 3
	if os.Getenv("STET_SOAK") != "" {
		rounds = 200
	}
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			master, replica := testserver.NewRedisPair(t)
			granted, refused := 0, 0
			for round := range rounds {
				f := &failover{single: a.single, round: round, granted: map[string]int{}}
				paused := round%2 == 1
				f.fail(t, master, replica, paused)
				for key, n := range f.granted {
					if n > 1 {
						t.Errorf("round %s was granted %d times", key, n)
					}
				}
				granted, refused = granted+f.before, refused+f.refused
				master.Start(t)
				master.Follow(t, replica)
				master, replica = replica, master
			}
			if granted == 0 || refused == 0 {
				t.Errorf("before the failovers %d were granted and %d refused: nothing was put to the test", granted, refused)
			}
		})
	}
}

// failover counts what is granted before and after one.
type failover struct {
	single func(t testing.TB, addr string) redisstore.Client
	round  int

	mu              sync.Mutex
	granted         map[string]int
	before, refused int
}

func (f *failover) fail(t *testing.T, master, replica *testserver.Server, paused bool) {
	t.Helper()
	first := f.engine(t, master, 1)
	f.begin(t, first, "whole", nil)
	if paused {
		f.begin(t, first, "while it is paused", func() { replica.Pause(t) })
	} else {
		f.begin(t, first, "while it is cut off", func() { replica.CutOff(t) })
	}
	f.begin(t, first, "away", nil)
	f.begin(t, first, "while the master is killed", func() { master.Kill(t) })
	for _, n := range f.granted {
		f.before += n
	}
	if paused {
		replica.Resume(t)
	}
	replica.Promote(t)
	second := f.engine(t, replica, 0) // no replica is left that could confirm
	for _, name := range []string{"whole", "while it is paused", "while it is cut off", "away", "while the master is killed"} {
		f.begin(t, second, name, nil)
	}
}

func (f *failover) engine(t *testing.T, server *testserver.Server, wait int) *stet.Engine {
	t.Helper()
	s := open(t, f.single(t, server.Addr), redisstore.Config{Shards: 1, Wait: wait, WaitTimeout: 300 * time.Millisecond}) // a busy machine replicates late
	e, err := stet.New(s, stet.Config{StoreTimeout: time.Second, Policy: stet.Policy{Lease: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// begin begins some keys at a time, and meanwhile does something else.
func (f *failover) begin(t *testing.T, e *stet.Engine, name string, meanwhile func()) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("%d: %s %d", f.round, name, i)
			d, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)}})
			f.mu.Lock()
			defer f.mu.Unlock()
			switch {
			case err != nil:
				f.refused++
			case d.Verdict == stet.Execute:
				f.granted[key]++
			}
		})
	}
	if meanwhile != nil {
		meanwhile()
	}
	wg.Wait()
}
