package operate_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// Whose context ends before the store has answered is told what was read last, and when; without
// that, or where it was changed since, that nothing is read. A reading that panics ends no process.
func TestThoseWhoCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, gets := func() {}, func() {}
		s, err := operate.New(operate.Config{Engine: newEngine(t, ability.Wrap(memstore.New(memstore.Config{}), func(ctx context.Context, c *ability.Call) error {
			if c.Op == ability.List {
				lists()
			}
			if c.Op == ability.Get {
				gets()
			}
			return c.Do(ctx)
		}, false))})
		if err != nil {
			t.Fatal(err)
		}
		look := func(wait time.Duration) operate.Status {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			all, err := s.For(operate.Caller{Name: "kim"}, nil).Overview(ctx)
			if err != nil {
				t.Error(err)
			}
			return all
		}
		first := look(100 * time.Millisecond)
		if first.Unread || first.ReadAt.IsZero() {
			t.Errorf("%+v", first)
		}
		synctest.Wait()
		lists = func() { time.Sleep(300 * time.Millisecond) }
		time.Sleep(time.Minute)
		if old := look(100 * time.Millisecond); old.Unread || !old.ReadAt.Equal(first.ReadAt) {
			t.Errorf("read at %s, and not at %s", old.ReadAt, first.ReadAt)
		}
		time.Sleep(time.Minute)
		if now := look(100 * time.Millisecond); !now.ReadAt.After(first.ReadAt) {
			t.Errorf("after the next reading: read at %s", now.ReadAt)
		}
		s.Forget()
		if after := look(100 * time.Millisecond); !after.Unread || !after.ReadAt.IsZero() {
			t.Errorf("after a change: %+v", after)
		}
		time.Sleep(time.Minute)
		gets = func() { time.Sleep(300 * time.Millisecond) }
		if slow := look(100 * time.Millisecond); slow.Store.OK || slow.Store.Why != "it has not answered yet" {
			t.Errorf("a store that takes its time: %+v", slow.Store)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		lists = func() { panic("a bug") }
		if _, err := s.For(operate.Caller{Name: "kim"}, nil).Incidents(t.Context(), operate.IncidentQuery{}); err == nil || operate.ProblemOf(err).Status != 503 {
			t.Errorf("a panic: %v", err)
		}
	})
}

// Readings of many filters are bounded: the oldest goes, and the latest is shared.
func TestReadingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		s, err := operate.New(operate.Config{Engine: newEngine(t, ability.Wrap(memstore.New(memstore.Config{}), func(ctx context.Context, c *ability.Call) error {
			lists++
			return c.Do(ctx)
		}, false))})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(filter int) (calls int) {
			before := lists
			if _, err := s.For(operate.Caller{Name: "kim"}, nil).Incidents(t.Context(), operate.IncidentQuery{Scope: stet.Scope(fmt.Sprint(filter))}); err != nil {
				t.Error(err)
			}
			return lists - before
		}
		for i := range 2 * operate.MaxReadings {
			ask(i)
			time.Sleep(time.Millisecond)
		}
		latest, first := ask(2*operate.MaxReadings-1), ask(0)
		if n := s.Readings(); n != operate.MaxReadings || latest != 0 || first == 0 {
			t.Errorf("%d are kept; the latest again took %d calls, the first %d", n, latest, first)
		}
	})
}
