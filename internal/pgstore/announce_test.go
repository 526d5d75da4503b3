package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// Names that are too many for a notification, or that it did not deliver, leave no copy in a cache:
// it is told that it missed some.
func TestLostNotificationsAreToldAsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent [][]string
		busy := make(chan struct{})
		takes := func(args []any) [][]any {
			sent = append(sent, args[0].([]string))
			return nil
		}
		broken := fails(errors.New("a broken connection"))
		pool := &server{t: t, answers: []answer{func(args []any) [][]any { <-busy; return takes(args) }, takes, broken, takes, broken}}
		store := newStore(pool, Config{})
		b := &bell{store: store}
		defer store.Close()
		told := func() (all [][]string) {
			time.Sleep(time.Minute)
			synctest.Wait()
			all, sent = sent, nil
			return all
		}
		b.ring("first", true)
		synctest.Wait() // it is on its way
		for i := range maxRinging {
			b.ring(fmt.Sprint(i), i > maxRinging/2)
		}
		close(busy)
		got := told()
		if len(got) != 2 || len(got[1]) > maxRinging+2 || got[1][len(got[1])-1] != results {
			t.Errorf("of too many names %d are sent, and that some are missed: %v", len(got), len(got) == 2 && slices.Contains(got[1], results))
		}
		b.ring("lost", true)
		if got = told(); len(got) != 1 || !slices.Equal(got[0], []string{results}) {
			t.Errorf("after a result was not sent, %q is", got)
		}
		b.ring("of no result", false)
		if got = told(); len(got) != 0 || len(pool.asked) != 5 {
			t.Errorf("after what is no result was not sent, %q is, in %d statements", got, len(pool.asked))
		}
	})
}

// What stands for any number of results is heard as all of them.
func TestMissedResultsAreHeardAsAll(t *testing.T) {
	id := stet.ID{Scope: "s", Key: "k"}
	s := &Store{cfg: Config{Package: "tests", Listen: func(_ context.Context, _ string, ready func(), heard func(string)) error {
		ready()
		for _, payload := range []string{name(id), results + name(id), results} {
			heard(payload)
		}
		return errors.New("over")
	}}}
	all, one := 0, []uint32{}
	_ = s.Follow(t.Context(), func() { all++ }, func(hash uint32) { one = append(one, hash) })
	if all != 2 || !slices.Equal(one, []uint32{s.Hash(id)}) {
		t.Errorf("%d times all, and %x; want 2 and %x", all, one, s.Hash(id))
	}
}
