package linear

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stet-dev/stet"
)

// history is what was done to the keys of one run, and how it was answered.
type history struct {
	t     *testing.T
	name  string
	began time.Time
	next  atomic.Int64
	left  [keys]atomic.Int64

	mu      sync.Mutex
	ops     []porcupine.Operation
	births  []birth               // in order
	granted map[stet.Version]bool // to begins
	given   map[int]bool          // up: begins without an answer
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// id is the record of a key.
func (h *history) id(key int) stet.ID {
	return stet.ID{Scope: "linear", Key: stet.Key(fmt.Sprintf("%s_%d", h.name, key))}
}

// add notes an operation that was called at began. One that failed may happen at any time from
// there.
func (h *history) add(client int, began int64, in input, out output) {
	ended := h.now()
	if out.word == failed {
		ended = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
}

// asked is the context key of the *asking that a message belongs to.
type asked struct{}

// asking is an operation under way.
type asking struct {
	input
	lost atomic.Bool // an answer, or a message: what came before may have happened when it was sent again
}

func (in input) asking(ctx context.Context) (context.Context, *asking) {
	a := &asking{input: in}
	return context.WithValue(ctx, asked{}, a), a
}

// birth is a create that has happened: for the begin that sent it, or, as a copy, long
// after that.
type birth struct {
	of      input
	version stet.Version
	op      porcupine.Operation
}

func (h *history) created(ctx context.Context, version stet.Version, began int64) {
	of := ctx.Value(asked{}).(*asking).input
	b := birth{of, version, porcupine.Operation{ClientId: clients, Call: began, Return: h.now(), Output: output{word: ok}}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.births = append(h.births, b)
}

// complete returns all that was done. A create whose version was granted belongs to its begin,
// once. A copy of it that lands on nothing is met by what its holder's settling left on the wire;
// what lands of a begin that was given up is taken back; and what lands of others belongs to no
// operation.
func (h *history) complete() []porcupine.Operation {
	settled := slices.Clone(h.ops)
	for _, b := range h.births {
		first, granted := h.granted[b.version]
		if first {
			h.granted[b.version] = false
			continue
		}
		in := input{verb: landed, key: b.of.key, id: b.of.id, owner: -b.of.id} // not what the begin itself was granted
		b.op.Input = in
		h.ops = append(h.ops, b.op)
		if h.given[in.id] {
			h.add(clients, b.op.Call, input{verb: forget, key: in.key, owner: in.owner}, output{word: failed})
		}
		for _, op := range settled {
			if of := op.Input.(input); granted && of.verb == settle && of.owner == in.id {
				of.owner = in.owner
				h.add(clients, b.op.Call, of, output{word: failed})
			}
		}
	}
	return h.ops
}

func (h *history) grants(v stet.Version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.granted[v] = true
}

func (h *history) gaveUp(id int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given[id] = true
}
