package memstore

import (
	"slices"
	"testing"

	"github.com/stet-dev/stet"
)

// The hash of an ID is random and 64 bits long, so that two of one hash are made by hand.
func TestRecordsOfOneHashAreToldApart(t *testing.T) {
	const h = 42
	ids := []stet.ID{{Scope: "s", Key: "a"}, {Scope: "s", Key: "b"}, {Scope: "t", Key: "a"}}
	for gone := range ids {
		sh := &shard{records: map[uint64]*entry{}}
		entries := make([]*entry, len(ids))
		for i, id := range ids {
			entries[i] = &entry{key: id.Key, label: &label{scope: id.Scope}, next: sh.records[h]}
			sh.records[h] = entries[i]
		}
		for i, id := range ids {
			if sh.find(h, id) != entries[i] {
				t.Fatalf("record %d is taken for another", i)
			}
		}
		sh.unlink(h, entries[gone])
		for i, id := range ids {
			if found := sh.find(h, id); (found == nil) != (i == gone) {
				t.Errorf("record %d was removed: record %d is there: %v", gone, i, found != nil)
			}
		}
		for _, e := range slices.Delete(slices.Clone(entries), gone, gone+1) {
			sh.unlink(h, e)
		}
		if len(sh.records) != 0 {
			t.Error("an empty chain is left")
		}
	}
}
