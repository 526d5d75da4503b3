package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// due is a store of which only what is due is asked: each heads batch is handed out once; what is
// in it is deleted or replaced without a look.
type due struct {
	stet.Store
	mu      sync.Mutex
	backlog int
	state   stet.State
	fail    error
	asked   []time.Time
	limits  []int
	ended   []stet.Version
}

func (d *due) Due(_ context.Context, q stet.Query) ([]stet.Head, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked, d.limits = append(d.asked, time.Now()), append(d.limits, q.Limit)
	if d.fail != nil {
		return nil, "", d.fail
	}
	if !slices.Contains(q.States, d.state) {
		return nil, "", nil
	}
	n, now := min(d.backlog, q.Limit), time.Now()
	heads := make([]stet.Head, n)
	for i := range heads {
		heads[i] = stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(i))}, State: d.state, Version: stet.Version(d.backlog - i), DueAt: now, AsOf: now}
	}
	next := ""
	if d.backlog > n {
		next = "more"
	}
	return heads, next, nil
}

func (d *due) Replace(_ context.Context, prev stet.Version, h stet.Head, _ *stet.Body) (stet.Head, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.backlog--
	d.ended = append(d.ended, prev)
	return h, nil
}

func (d *due) Delete(_ context.Context, _ stet.ID, prev stet.Version) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.backlog--
	d.ended = append(d.ended, prev)
	return nil
}

func engine(t *testing.T, s stet.Store) *stet.Engine {
	t.Helper()
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// runner is what a Sweeper and a Reaper have in common.
type runner interface{ Run(context.Context) error }

var kinds = []struct {
	name  string
	state stet.State
	make  func(e *stet.Engine, every time.Duration, batch int) runner
}{
	{"Sweeper", stet.Running, func(e *stet.Engine, every time.Duration, batch int) runner {
		return Sweeper{Engine: e, Every: every, Batch: batch}
	}},
	{"Reaper", stet.Completed, func(e *stet.Engine, every time.Duration, batch int) runner {
		return Reaper{Engine: e, Every: every, Batch: batch}
	}},
}

// each runs f for both loops, in a bubble with a clock of its own.
func each(t *testing.T, f func(t *testing.T, d *due, start func(every time.Duration, batch int) (stop func() error))) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &due{state: k.state}
				f(t, d, func(every time.Duration, batch int) func() error {
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- k.make(engine(t, d), every, batch).Run(ctx) }()
					return func() error { cancel(); return <-ended }
				})
			})
		})
	}
}

func TestBacklogIsDoneInBatchesWithPauses(t *testing.T) {
	each(t, func(t *testing.T, d *due, start func(time.Duration, int) func() error) {
		d.backlog = 25
		stop := start(time.Minute, 10)
		time.Sleep(70 * time.Second) // the bubble's clock
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if d.backlog != 0 || len(d.ended) != 25 {
			t.Errorf("%d are left, %d were ended", d.backlog, len(d.ended))
		}
		if len(d.asked) != 3 {
			t.Fatalf("asked %d times, want three batches in one round", len(d.asked))
		}
		for i := 1; i < 3; i++ {
			if gap := d.asked[i].Sub(d.asked[i-1]); gap != minPause {
				t.Errorf("the pause between batches was %s", gap)
			}
		}
	})
}

func TestStoreErrorsEndARoundNotTheLoop(t *testing.T) {
	each(t, func(t *testing.T, d *due, start func(time.Duration, int) func() error) {
		d.fail = errors.New("away")
		stop := start(time.Minute, 0)
		time.Sleep(5*time.Minute + 40*time.Second)
		synctest.Wait()
		d.mu.Lock()
		down := len(d.asked)
		if down < 5 || down > 6 {
			t.Errorf("asked %d times in under six minutes, want once a minute", down)
		}
		d.fail, d.backlog = nil, 3
		d.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if d.backlog != 0 {
			t.Errorf("%d records are left after the store came back", d.backlog)
		}
		if want := map[stet.State]int{stet.Running: stet.DefaultLimit, stet.Completed: min(defaultReapBatch, stet.MaxLimit)}[d.state]; d.limits[0] != want {
			t.Errorf("a batch is %d, want the default, %d", d.limits[0], want)
		}
	})
}

func TestRoundsOfTwoProcessesDrift(t *testing.T) {
	each(t, func(t *testing.T, d *due, start func(time.Duration, int) func() error) {
		stop := start(time.Minute, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		_ = stop()
		gaps := map[time.Duration]bool{}
		for i := 1; i < len(d.asked); i++ {
			gap := d.asked[i].Sub(d.asked[i-1])
			if gap < 54*time.Second || gap > 66*time.Second {
				t.Errorf("rounds are %s apart, want a minute give or take a tenth", gap)
			}
			gaps[gap] = true
		}
		if len(gaps) < 10 {
			t.Errorf("only %d different pauses in an hour", len(gaps))
		}
	})
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	e := engine(t, &due{})
	for _, c := range []struct {
		r    runner
		want string
	}{
		{Sweeper{}, "a Sweeper needs an Engine"},
		{Reaper{}, "a Reaper needs an Engine"},
		{Trimmer{}, "a Trimmer needs an Engine"},
		{Trimmer{Engine: e}, "Age"},
		{Sweeper{Engine: e, Every: -1}, "Every is -1ns"},
		{Reaper{Engine: e, Batch: 10*stet.MaxLimit + 1}, "Batch is 10001"},
	} {
		if err := c.r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%#v: %v, want %q", c.r, err, c.want)
		}
	}
}

// The history is trimmed once an hour, in batches, and an error of the store ends a round alone.
func TestTrimmer(t *testing.T) { // S15
	synctest.Test(t, func(t *testing.T) {
		m := &old{Store: memstore.New(memstore.Config{}), old: 25, fail: errors.New("away")}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Trimmer{Engine: engine(t, m), Age: 48 * time.Hour, Batch: 10}.Run(ctx) }()
		time.Sleep(70 * time.Minute) // the bubble's clock
		synctest.Wait()
		m.mu.Lock()
		if len(m.limits) != 1 || m.age != 48*time.Hour {
			t.Errorf("in the first hour: asked for %v of the age of %v", m.limits, m.age)
		}
		m.fail, m.limits = nil, nil
		m.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || m.old != 0 || !slices.Equal(m.limits, []int{10, 10, 10}) {
			t.Errorf("%v: %d are left, asked for %v", err, m.old, m.limits)
		}
	})
}

// old has entries of the history that are old enough.
type old struct {
	*memstore.Store
	mu     sync.Mutex
	old    int
	fail   error
	limits []int
	age    time.Duration
}

func (o *old) Trim(_ context.Context, age time.Duration, limit int) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limits, o.age = append(o.limits, limit), age
	if o.fail != nil {
		return 0, o.fail
	}
	n := min(o.old, limit)
	o.old -= n
	return n, nil
}
