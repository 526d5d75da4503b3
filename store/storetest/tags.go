package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var tagLaws = []law{
	{"tag",
		"a record is found by the Tag of its last write, from that write until its deletion, and by no other tag",
		tags},
	{"a shared tag", "a query by Tag finds all records with that tag, each with its own ID", tagOfMany},
	{"tag after reaping", "a reaped record is no longer found by its tag", tagAfterReaping},
	{"tag in a transaction",
		"a tag that is written in a transaction is found after the commit, and not after a rollback",
		tagInTransaction},
}

// tagged returns a record with the tag of this number.
func tagged(key string, n int) stet.Record {
	r := running(key)
	r.Tag = nth(n)
	return r
}

func nth(n int) string { return fmt.Sprintf("k_%016x", uint64(n)*0x9e3779b97f4a7c15) }

// tells checks which records have a tag.
func (x *bench) tells(tag string, want ...stet.ID) {
	x.t.Helper()
	x.lists("the tag "+tag, x.pages(ability[stet.Lister](x.t, x), stet.Query{Tag: tag}, nil), want)
}

func tags(t testing.TB, x *bench) { // D04
	l := ability[stet.Lister](t, x)
	a, b, bare := x.create(tagged("k", 1)), tagged("k", 2), x.create(running("bare"))
	b.Scope = "other"
	b = x.create(b)
	if a.Tag != nth(1) || x.get(a.ID).Tag != nth(1) || x.get(bare.ID).Tag != "" {
		t.Fatalf("written with %q and \"\", read as %q, %q and %q", nth(1), a.Tag, x.get(a.ID).Tag, x.get(bare.ID).Tag)
	}
	found := x.pages(l, stet.Query{Tag: nth(1)}, nil)
	if len(found) != 1 {
		t.Fatalf("%d records have the tag right after Create", len(found))
	}
	whole := x.get(a.ID)
	whole.AsOf = found[0].AsOf
	sameRecord(t, stet.Record{Head: found[0]}, stet.Record{Head: whole.Head})
	x.tells(nth(2), b.ID)
	for _, none := range []string{nth(3), nth(1)[:17], nth(1) + "0", "K_" + nth(1)[2:], "k", "\x00", "%"} {
		x.tells(none)
	}
	for _, q := range []struct {
		stet.Query
		want int
	}{{stet.Query{Scope: "other"}, 0}, {stet.Query{Scope: a.Scope}, 1}, {stet.Query{Key: "x"}, 0}, {stet.Query{States: []stet.State{stet.Unknown}}, 0},
		{stet.Query{States: []stet.State{stet.Running}, Limit: 1, Oldest: true}, 1}} {
		q.Tag = nth(1)
		if got := x.pages(l, q.Query, nil); len(got) != q.want {
			t.Errorf("%d records by the tag and %+v", len(got), q.Query)
		}
	}
	a.Head = x.replace(a.Head, nil, completed)
	x.tells(nth(1), a.ID)
	a.Head = x.replace(a.Head, &stet.Body{}, func(h *stet.Head) { h.CreatedAt, h.State = time.Time{}, stet.Running }) // a new life
	x.tells(nth(1), a.ID)
	a.Head = x.replace(a.Head, nil, func(h *stet.Head) { h.Tag = nth(4) }) // under another pepper
	x.tells(nth(1))
	x.tells(nth(4), a.ID)
	bare.Head = x.replace(bare.Head, nil, func(h *stet.Head) { h.Tag = nth(5) })
	x.tells(nth(5), bare.ID)
	bare.Head = x.replace(bare.Head, nil, func(h *stet.Head) { h.Tag = "" })
	x.tells(nth(5))
	if err := x.store.Delete(x.ctx, a.ID, a.Version); err != nil {
		t.Fatal(err)
	}
	x.tells(nth(4))
	again := x.create(tagged("k", 4))
	x.tells(nth(4), again.ID)
	x.tells(nth(2), b.ID)
}

func tagOfMany(t testing.TB, x *bench) {
	ability[stet.Lister](t, x)
	var all []stet.ID
	for i := range 3 {
		all = append(all, x.create(tagged(key(i), 1)).ID)
	}
	x.tells(nth(1), all...)
	for i, of := range []int{0, 2, 1} {
		gone := x.get(all[of])
		if i == 0 {
			x.replace(gone.Head, nil, func(h *stet.Head) { h.Tag = nth(2) })
		} else if err := x.store.Delete(x.ctx, gone.ID, gone.Version); err != nil {
			t.Fatal(err)
		}
		x.tells(nth(1), [][]stet.ID{{all[1], all[2]}, {all[1]}, nil}[i]...)
	}
	x.tells(nth(2), all[0])
}

func tagAfterReaping(t testing.TB, x *bench) {
	r := ability[stet.Reaper](t, x)
	for i := range 5 {
		x.replace(x.create(tagged(key(i), i)).Head, nil, func(h *stet.Head) { completed(h); h.DueIn = 0 })
	}
	stays := x.create(tagged("stays", 9))
	x.pass(time.Millisecond)
	if n, err := r.Reap(x.ctx, 100); n != 5 || err != nil {
		t.Fatalf("Reap: %d, %v", n, err)
	}
	for i := range 5 {
		x.tells(nth(i))
	}
	x.tells(nth(9), stays.ID)
	x.tells(nth(0))
	x.tells(nth(0), x.create(tagged(key(0), 0)).ID)
}

func tagInTransaction(t testing.TB, x *bench) {
	ability[stet.Lister](t, x)
	if x.Begin == nil {
		t.Skip("the store joins no transactions")
	}
	made := x.create(tagged("made", 1))
	write := func() (*transaction, stet.ID) {
		tx := x.begin()
		tx.replace(made.Head, nil, func(h *stet.Head) { h.Tag = nth(2) })
		return tx, tx.create(tagged("fresh", 3)).ID
	}
	tx, _ := write()
	if err := tx.rollback(); err != nil {
		t.Fatal(err)
	}
	x.tells(nth(1), made.ID)
	x.tells(nth(2))
	x.tells(nth(3))
	tx, fresh := write()
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	x.tells(nth(1))
	x.tells(nth(2), made.ID)
	x.tells(nth(3), fresh)
}
