package ability_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/store/memstore"
)

// able has every ability, and counts the calls of each method.
type able struct {
	stet.Store
	asked map[string]int
}

func newAble() *able { return &able{memstore.New(memstore.Config{}), map[string]int{}} }

func (a *able) Wait(context.Context, stet.ID, stet.Version) error { a.asked["Wait"]++; return nil }
func (a *able) List(context.Context, stet.Query) ([]stet.Head, string, error) {
	a.asked["List"]++
	return make([]stet.Head, 1), "more", nil
}
func (a *able) Count(context.Context, stet.Query) (int, error) { a.asked["Count"]++; return 1, nil }
func (a *able) Find(context.Context, stet.Scope, string) ([]stet.Head, error) {
	a.asked["Find"]++
	return make([]stet.Head, 1), nil
}
func (a *able) History(context.Context, stet.HistoryQuery) ([]stet.Change, string, error) {
	a.asked["History"]++
	return make([]stet.Change, 1), "more", nil
}
func (a *able) Append(context.Context, stet.Change) error { a.asked["Append"]++; return nil }
func (a *able) Reap(context.Context, int) (int, error)    { a.asked["Reap"]++; return 1, nil }
func (a *able) Trim(context.Context, time.Duration, int) (int, error) {
	a.asked["Trim"]++
	return 1, nil
}
func (a *able) Erase(context.Context, stet.HistoryQuery) (int, error) {
	a.asked["Erase"]++
	return 1, nil
}
func (a *able) Bind(any) (stet.Store, error) { a.asked["Bind"]++; return a, nil }
func (a *able) Undoable(context.Context, error) error {
	a.asked["Undoable"]++
	return nil
}
func (a *able) Check(context.Context) error { a.asked["Check"]++; return nil }
func (a *able) Sizes() stet.Sizes           { a.asked["Sizes"]++; return stet.Sizes{} }
func (a *able) Left() []stet.Head           { a.asked["Left"]++; return nil }
func (a *able) LogSize() (int64, error)     { a.asked["LogSize"]++; return 1, nil }
func (a *able) Identity(context.Context) (now, known stet.Identity, err error) {
	a.asked["Identity"]++
	return stet.Identity{ID: "i"}, stet.Identity{}, nil
}
func (a *able) Know(stet.Identity) { a.asked["Know"]++ }
func (a *able) Accept(context.Context) (stet.Identity, error) {
	a.asked["Accept"]++
	return stet.Identity{ID: "i"}, nil
}
func (a *able) Close() error { return errClosed }

var errClosed = errors.New("closed")

// abilities are the fields of a Set.
var abilities = reflect.VisibleFields(reflect.TypeFor[ability.Set]())

// set has those abilities of a whose bits are set.
func set(a ability.All, bits int) (has ability.Set) {
	v := reflect.ValueOf(&has).Elem()
	for i := range abilities {
		if bits>>i&1 == 1 {
			v.Field(i).Set(reflect.ValueOf(a))
		}
	}
	return has
}

// found are the bits of the abilities that stet.As finds.
func found(s stet.Store) (bits int) {
	v := reflect.ValueOf(ability.Of(s))
	for i := range abilities {
		if !v.Field(i).IsNil() {
			bits |= 1 << i
		}
	}
	return bits
}

// holder unwraps to a chain, as wrappers do. By itself it has the verbs only.
type holder struct {
	stet.Store
	chain stet.Store
}

func (h *holder) Unwrap() stet.Store { return h.chain }

// having is a store with those abilities of a, and no others.
func having(a *able, bits int) stet.Store {
	h := &holder{Store: a.Store}
	h.chain = set(a, bits).Chain(h, a, nil)
	return h
}

// Each set of abilities is found whole, and nothing else is.
func TestChainHasTheSetAndNothingElse(t *testing.T) {
	for bits := range 1 << len(abilities) {
		if got := found(having(newAble(), bits)); got != bits {
			t.Errorf("of the abilities %09b, %09b are found", bits, got)
		}
	}
}

func TestChainEndsInTheStore(t *testing.T) {
	h := &holder{Store: memstore.New(memstore.Config{})}
	h.chain = set(newAble(), 1).Chain(h, newAble(), newAble())
	if got := found(h); got != 1<<len(abilities)-1 {
		t.Errorf("found %09b", got)
	}
	if err := ability.Close(h); !errors.Is(err, errClosed) {
		t.Errorf("Close: %v", err)
	}
	if err := ability.Close(memstore.New(memstore.Config{})); err != nil {
		t.Errorf("a store with nothing to close: %v", err)
	}
}
