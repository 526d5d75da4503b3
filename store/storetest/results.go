package storetest

import (
	"fmt"
	"testing"

	"github.com/stet-dev/stet"
)

var resultLaws = []law{
	{"results",
		"Failed and Succeeded select completed records only, in Due, List and Count, even if other records have a status",
		results},
}

// results gives records in every state a status. Other states than Completed may have one: an
// unknown record keeps a status that came too late, and an Expired or Retryable one keeps its last.
func results(t testing.TB, x *bench) { // B04
	var made []stet.Head
	for st := stet.Running; st <= stet.Expired; st++ {
		for _, status := range []int{0, 200, 499, 500, 599} {
			h := x.create(running(fmt.Sprint(st, status))).Head
			made = append(made, x.replace(h, nil, func(h *stet.Head) { h.State, h.Status, h.DueIn = st, status, 0 }))
		}
	}
	x.pass(0)
	lister, lists := stet.As[stet.Lister](x.store)
	counter, counts := stet.As[stet.Counter](x.store)
	for _, q := range []stet.Query{
		{Failed: true}, {Succeeded: true}, {Failed: true, Succeeded: true}, {Failed: true, Limit: 1}, {Succeeded: true, Limit: 2},
		{Failed: true, States: []stet.State{stet.Completed, stet.Unknown}}, {Succeeded: true, States: []stet.State{stet.Expired, stet.Completed}},
		{Failed: true, States: []stet.State{stet.Unknown}}, {Succeeded: true, States: []stet.State{stet.Running}},
		{Failed: true, Scope: "tenant", Route: "charges"}, {Succeeded: true, Route: "other"},
	} {
		var want []stet.ID
		for _, h := range made {
			if q.Matches(&h) {
				want = append(want, h.ID)
			}
		}
		x.once("Due", x.walk(q, nil), want)
		if lists {
			if got := listed(t, x, lister, q); got != len(want) {
				t.Errorf("List shows %d records, want %d", got, len(want))
			}
		}
		if c := q; counts {
			c.Limit = len(made)
			if n, err := counter.Count(x.ctx, c); err != nil || n != len(want) {
				t.Errorf("Count: %d, %v; want %d", n, err, len(want))
			}
		}
		if t.Failed() {
			t.Fatalf("by the query %+v", q)
		}
	}
}

// listed returns how many records List returns, and checks that q selects each of them.
func listed(t testing.TB, x *bench, l stet.Lister, q stet.Query) (n int) {
	t.Helper()
	for range 100 {
		heads, next, err := l.List(x.ctx, q)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for i := range heads {
			if !q.Matches(&heads[i]) {
				t.Errorf("List shows a record that is %v with status %d", heads[i].State, heads[i].Status)
			}
		}
		n += len(heads)
		if q.After = next; next == "" {
			return n
		}
	}
	t.Fatal("the list has no end")
	return 0
}
