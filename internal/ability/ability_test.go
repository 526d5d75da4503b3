package ability_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/store/memstore"
)

// wrapper unwraps to a chain, as real ones do.
type wrapper struct {
	stet.Store
	chain stet.Store
}

func (w *wrapper) Unwrap() stet.Store { return w.chain }

type others struct{ stet.Store }

func (others) Find(context.Context, string) ([]stet.Head, error) { return nil, nil }
func (others) History(context.Context, stet.HistoryQuery) ([]stet.Change, string, error) {
	return nil, "", nil
}
func (others) Append(context.Context, stet.Change) error { return nil }
func (others) Bind(any) (stet.Store, error)              { return nil, stet.ErrForeignTx }
func (others) Check(context.Context) error               { return nil }
func (others) LogSize() (int64, error)                   { return 0, nil }
func (others) Close() error                              { return errClosed }

var errClosed = errors.New("closed")

func found(s stet.Store) (is [9]bool) {
	_, is[0] = stet.As[stet.Waiter](s)
	_, is[1] = stet.As[stet.Lister](s)
	_, is[2] = stet.As[stet.Counter](s)
	_, is[3] = stet.As[stet.Finder](s)
	_, is[4] = stet.As[stet.Historian](s)
	_, is[5] = stet.As[stet.Binder](s)
	_, is[6] = stet.As[stet.Reaper](s)
	_, is[7] = stet.As[stet.Checker](s)
	_, is[8] = stet.As[ability.LogSizer](s)
	return is
}

// Every set of abilities is found whole, and nothing beside it.
func TestChainHasTheSetAndNothingElse(t *testing.T) {
	m, o := memstore.New(memstore.Config{}), others{}
	for bits := range 1 << 9 {
		var set ability.Set
		var want [9]bool
		for i := range want {
			if want[i] = bits>>i&1 == 1; !want[i] {
				continue
			}
			switch i {
			case 0:
				set.Waiter = m
			case 1:
				set.Lister = m
			case 2:
				set.Counter = m
			case 3:
				set.Finder = o
			case 4:
				set.Historian = o
			case 5:
				set.Binder = o
			case 6:
				set.Reaper = m
			case 7:
				set.Checker = o
			case 8:
				set.LogSizer = o
			}
		}
		w := &wrapper{Store: m}
		w.chain = set.Chain(w, nil)
		if got := found(w); got != want {
			t.Errorf("of %08b %v is found", bits, got)
		}
	}
}

func TestChainEndsInTheStore(t *testing.T) {
	w := &wrapper{Store: memstore.New(memstore.Config{})}
	w.chain = ability.Set{Waiter: memstore.New(memstore.Config{})}.Chain(w, others{})
	if got := found(w); got != [9]bool{true, false, false, true, true, true, false, true, true} {
		t.Errorf("found %v", got)
	}
	if err := ability.Close(w); !errors.Is(err, errClosed) {
		t.Errorf("Close: %v", err)
	}
	if err := ability.Close(memstore.New(memstore.Config{})); err != nil {
		t.Errorf("a store with nothing to close: %v", err)
	}
}
