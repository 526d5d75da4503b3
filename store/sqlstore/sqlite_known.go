package sqlstore

import (
	"hash/maphash"
	"sync"

	"github.com/stet-dev/stet"
)

// known remembers hashes of the names of records that this process has made or found lately, so
// that their duplicates are looked up before they wait for those that write. It forgets none of the
// last knownNames, and is safe for concurrent use.
type known struct {
	mu          sync.Mutex
	now, before map[uint64]struct{}
}

const knownNames = 100_000 // two times as many take about 5 MB

var knownSeed = maphash.MakeSeed()

func (k *known) add(id stet.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || len(k.now) == knownNames {
		k.before, k.now = k.now, map[uint64]struct{}{}
	}
	k.now[maphash.Comparable(knownSeed, id)] = struct{}{}
}

func (k *known) has(id stet.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := maphash.Comparable(knownSeed, id)
	_, now := k.now[h]
	_, before := k.before[h]
	return now || before
}
