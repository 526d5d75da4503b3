package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var findLaws = []law{
	{"find",
		"Find finds a record by its current DownstreamKey or DownstreamID, compared byte for byte, and by no other name",
		find},
	{"find bounds", "Find returns at most DefaultLimit records, and none that no longer has the name", findBounds},
	{"find scopes", "Find looks within one scope, whatever else has the name, and in all scopes if none is given", findScopes},
}

func find(t testing.TB, x *bench) { // S1-39
	f := ability[stet.Finder](t, x)
	finds := func(name string, want ...stet.Record) {
		t.Helper()
		heads, err := f.Find(x.ctx, "", name)
		if err != nil || len(heads) != len(want) {
			t.Fatalf("Find(%q): %d records, %v; want %d", name, len(heads), err, len(want))
		}
		for _, w := range want {
			w.Head = x.get(w.ID).Head
			for _, h := range heads {
				if h.ID == w.ID {
					h.AsOf = w.AsOf
					sameRecord(t, stet.Record{Head: h}, stet.Record{Head: w.Head})
					w.ID = stet.ID{}
				}
			}
			if (w.ID != stet.ID{}) {
				t.Errorf("Find(%q) found another record", name)
			}
		}
	}
	named := func(k, downKey, downID string) stet.Record {
		r := full()
		r.Version, r.Key, r.DownstreamKey, r.DownstreamID = draw(), stet.Key(k), downKey, downID
		return x.create(r)
	}
	x.create(running("nameless"))
	a, b := named("a", "stet_1", "ch_1"), named("b", "stet_1", "CH_1")
	odd, one, key := named("odd", "\xff\x00", "é"), named("one", "same", "same"), named("key", "stet_9", "")
	for name, want := range map[string][]stet.Record{
		"stet_1": {a, b}, "ch_1": {a}, "CH_1": {b}, "\xff\x00": {odd}, "é": {odd}, "same": {one}, "stet_9": {key},
		"": nil, "ch_1 ": nil, " ch_1": nil, "ch_%": nil, "%": nil, "c__1": nil, "ch_1\x00": nil, "\xff": nil, "e\u0301": nil, "a": nil,
	} {
		finds(name, want...)
	}
	a.Head = x.replace(a.Head, nil, func(h *stet.Head) { h.DownstreamID = "ch_2" })
	finds("ch_1")
	finds("ch_2", a)
	finds("stet_1", a, b)
	one.Head = x.replace(one.Head, nil, func(h *stet.Head) { h.DownstreamKey = "" })
	finds("same", one)
	b.Head = x.replace(b.Head, &stet.Body{}, func(h *stet.Head) { // a new life knows nothing of the old one's
		h.CreatedAt, h.DownstreamKey, h.DownstreamID = time.Time{}, "", ""
	})
	finds("CH_1")
	finds("stet_1", a)
	if err := x.store.Delete(x.ctx, a.ID, a.Version); err != nil {
		t.Fatal(err)
	}
	finds("stet_1")
	finds("ch_2")
	finds("same", one)
}

func findBounds(t testing.TB, x *bench) {
	f := ability[stet.Finder](t, x)
	const n = stet.DefaultLimit + 20
	made := make([]stet.Record, n)
	for i := range made {
		r := running(key(i))
		r.DownstreamKey, r.DownstreamID = "shared", fmt.Sprint("ch_", i)
		made[i] = x.create(r)
	}
	found := func(want int) {
		t.Helper()
		heads, err := f.Find(x.ctx, "", "shared")
		ids := map[stet.ID]bool{}
		for _, h := range heads {
			ids[h.ID] = true
		}
		if err != nil || len(heads) != want || len(ids) != want {
			t.Fatalf("%d records have the name; found %d, different ones %d, %v; want %d", n, len(heads), len(ids), err, want)
		}
	}
	found(stet.DefaultLimit)
	for _, r := range made[:n-30] {
		x.replace(r.Head, nil, func(h *stet.Head) { h.DownstreamKey = "" })
	}
	found(30)
}

func findScopes(t testing.TB, x *bench) { // K11
	f := ability[stet.Finder](t, x)
	const n = stet.DefaultLimit + 20
	for i := range n {
		r := running(key(i))
		r.Scope, r.DownstreamKey, r.DownstreamID = stet.Scope(fmt.Sprint("tenant_", i)), fmt.Sprint("order_", i%2), "ch_1"
		x.create(r)
	}
	for i := range n {
		scope := stet.Scope(fmt.Sprint("tenant_", i))
		for _, name := range []string{"ch_1", fmt.Sprint("order_", i%2)} {
			if heads, err := f.Find(x.ctx, scope, name); err != nil || len(heads) != 1 || heads[0].Scope != scope {
				t.Fatalf("%q in %q: %d records, %v", name, scope, len(heads), err)
			}
		}
		if heads, err := f.Find(x.ctx, scope, fmt.Sprint("order_", 1-i%2)); err != nil || len(heads) != 0 {
			t.Fatalf("%q has a name of another scope: %d records, %v", scope, len(heads), err)
		}
	}
	for _, scope := range []stet.Scope{"tenant", "tenant_", "tenant_1\x00", "TENANT_1"} {
		if heads, err := f.Find(x.ctx, scope, "ch_1"); err != nil || len(heads) != 0 {
			t.Errorf("%q: %d records, %v", scope, len(heads), err)
		}
	}
}
