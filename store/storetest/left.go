package storetest

import (
	"testing"

	"github.com/stet-dev/stet"
)

var leftLaws = []law{
	{"left",
		"a store that is opened while nobody has it open tells the runs that were left, and only those; while anybody has it open, it tells none",
		left},
}

func left(t testing.TB, x *bench) { // R07
	if _, ok := stet.As[stet.Heir](x.store); !ok || !x.Durable {
		t.Skip("the store does not tell what was left")
	}
	dir := x.dir + "/left"
	open := func() stet.Store { return x.Open(t, dir, x.clock.Now) }
	tells := func(s stet.Store, when string, want ...stet.Version) {
		t.Helper()
		heir, _ := stet.As[stet.Heir](s)
		var got []stet.Version
		for _, h := range heir.Left() {
			got = append(got, h.Version)
		}
		if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("%s, it tells versions %v, want %v", when, got, want)
		}
	}
	first := open()
	tells(first, "when the store is new")
	for _, state := range []stet.State{stet.Completed, stet.Unknown, stet.Retryable} {
		r := running(state.String())
		r.State = state
		if _, err := first.Create(x.ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	suspended := running("suspended")
	suspended.Cause = stet.CauseSuspended
	if _, err := first.Create(x.ctx, suspended); err != nil {
		t.Fatal(err)
	}
	was, err := first.Create(x.ctx, running("left"))
	if err != nil {
		t.Fatal(err)
	}
	tells(first, "of its own")
	if x.Shared {
		beside := open()
		tells(beside, "while another handle has it open")
		closeStore(t, beside)
		other := open()
		closeStore(t, first)
		first = open()
		tells(first, "while a handle has it open that was opened beside others")
		closeStore(t, other)
	}
	closeStore(t, first)
	second := open()
	tells(second, "after all have closed it", was.Version)
	if got, err := second.Get(x.ctx, was.ID); err != nil || got.Version != was.Version {
		t.Errorf("what was left is now version %d, %v", got.Version, err)
	}
	closeStore(t, second)
}
