package ability_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

var id = stet.ID{Scope: "s", Key: "k"}

func running() stet.Record {
	return stet.Record{Head: stet.Head{ID: id, Version: 1, State: stet.Running, Attempt: 1}}
}

// Each call goes through the Around, which sees what it is about.
func TestAroundSeesEveryCall(t *testing.T) {
	var seen []string
	wrapped := ability.Wrap(newAble(), func(ctx context.Context, c *ability.Call) error {
		seen = append(seen, fmt.Sprintf("%d %s %d", c.Op, string(c.ID.Key), c.State))
		return c.Do(ctx)
	}, false)
	has, r := ability.Of(wrapped), running()
	if _, err := wrapped.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, err := wrapped.Get(t.Context(), id); err != nil || got.Version != 1 {
		t.Fatal(got, err)
	}
	h := r.Head
	h.Version, h.State = 2, stet.Completed
	if got, err := wrapped.Replace(t.Context(), 1, h, &stet.Body{}); err != nil || got.Version != 2 {
		t.Fatal(got, err)
	}
	if err := wrapped.Delete(t.Context(), id, 2); err != nil {
		t.Fatal(err)
	}
	heads, next, due := wrapped.Due(t.Context(), stet.Query{})
	if heads != nil || next != "" || due != nil {
		t.Error(heads, next, due)
	}
	wait := has.Wait(t.Context(), id, 1)
	heads, next, list := has.List(t.Context(), stet.Query{})
	n, count := has.Count(t.Context(), stet.Query{})
	found, find := has.Find(t.Context(), "", "ch_1")
	changes, after, history := has.History(t.Context(), stet.HistoryQuery{ID: id})
	add := has.Append(t.Context(), stet.Change{ID: id})
	reaped, reap := has.Reap(t.Context(), 9)
	trimmed, trim := has.Trim(t.Context(), time.Hour, 9)
	erased, erase := has.Erase(t.Context(), stet.HistoryQuery{ID: id})
	if err := errors.Join(wait, list, count, find, history, add, reap, trim, erase); err != nil {
		t.Error(err)
	}
	if len(heads) != 1 || next != "more" || n != 1 || len(found) != 1 || len(changes) != 1 || after != "more" || reaped != 1 || trimmed != 1 || erased != 1 {
		t.Error("the results of the store do not come through:", heads, next, n, found, changes, after, reaped, trimmed, erased)
	}
	want := []string{"0 k 1", "1 k 0", "2 k 2", "3 k 0", "4  0", "5 k 0", "6  0", "7  0", "8  0", "9 k 0", "10 k 0", "11  0", "12  0", "13 k 0"}
	if !slices.Equal(seen, want) {
		t.Errorf("saw %q, not %q", seen, want)
	}
}

// Results come with the store's own error, and with no other.
func TestResultsComeWithTheStoresError(t *testing.T) {
	errOwn := errors.New("own")
	var answer func(error) error
	wrapped := ability.Wrap(newAble(), func(ctx context.Context, c *ability.Call) error { return answer(c.Do(ctx)) }, false)
	for name, c := range map[string]struct {
		answer func(error) error
		want   error
		shown  bool
	}{
		"the same":    {func(err error) error { return err }, stet.ErrExists, true},
		"wrapped":     {func(err error) error { return fmt.Errorf("create: %w", err) }, stet.ErrExists, true},
		"another":     {func(error) error { return errOwn }, errOwn, false},
		"none at all": {func(error) error { return nil }, nil, false},
	} {
		answer = func(err error) error { return err }
		_, _ = wrapped.Create(t.Context(), running())
		answer = c.answer
		if got, err := wrapped.Create(t.Context(), running()); !errors.Is(err, c.want) || got.Version == 1 != c.shown {
			t.Errorf("%s: %v, with the record of version %d", name, err, got.Version)
		}
	}
	answer = func(error) error { return errOwn }
	if heads, next, err := ability.Of(wrapped).List(t.Context(), stet.Query{}); heads != nil || next != "" || !errors.Is(err, errOwn) {
		t.Error(heads, next, err)
	}
}

// What is bound to a transaction is wrapped where the wrapper asks for that.
func TestAroundInTransactions(t *testing.T) {
	for _, inTx := range []bool{false, true} {
		asked := 0
		wrapped := ability.Wrap(newAble(), func(ctx context.Context, c *ability.Call) error { asked++; return c.Do(ctx) }, inTx)
		bound, err := ability.Of(wrapped).Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = bound.Get(t.Context(), id)
		_, _ = ability.Of(bound).Count(t.Context(), stet.Query{})
		if asked != map[bool]int{false: 0, true: 2}[inTx] {
			t.Errorf("inTx %t: %d calls go through", inTx, asked)
		}
	}
}
