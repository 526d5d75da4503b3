package sqlstore

import (
	"hash/maphash"
	"sync"

	"github.com/stet-dev/stet"
)

// known remembers names of records that this process has made or found lately, so that their
// duplicates are looked up before they wait for those that write. It is a Bloom filter of two
// generations: it forgets none of the last 400,000 names, and takes one name in a hundred for
// another. It takes a megabyte once it is used. It is safe for concurrent use.
type known struct {
	mu          sync.Mutex
	now, before []uint64
	added       int // to now
}

const (
	knownBits       = 1 << 22 // of a generation
	knownGeneration = 400_000 // names: about ten bits for each
	knownMarks      = 4       // bits that a name sets
)

var knownSeed = maphash.MakeSeed()

// marks calls visit with each bit of id's, until it returns false.
func marks(id stet.ID, visit func(word, bit uint64) bool) {
	h := maphash.Comparable(knownSeed, id)
	for range knownMarks {
		if at := h % knownBits; !visit(at/64, 1<<(at%64)) {
			return
		}
		h = h>>16 | h<<48
	}
}

func (k *known) add(id stet.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || k.added == knownGeneration {
		k.before, k.now, k.added = k.now, make([]uint64, knownBits/64), 0
	}
	k.added++
	marks(id, func(word, bit uint64) bool { k.now[word] |= bit; return true })
}

func (k *known) has(id stet.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, generation := range [...][]uint64{k.now, k.before} {
		all := generation != nil
		if all {
			marks(id, func(word, bit uint64) bool { all = generation[word]&bit != 0; return all })
		}
		if all {
			return true
		}
	}
	return false
}
