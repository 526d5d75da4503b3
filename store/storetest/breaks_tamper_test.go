package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// tamperBreaks are breaks of a store that others can reach into, or that has to confirm what it
// wrote.
var tamperBreaks = []backendBreak{
	{"Due ends at what cannot be read", "due past damage", damaged(beforeDamage)},
	{"Due fails where something cannot be read", "due past damage", damaged(failOverDamage)},
	{"Due shows what it cannot read", "due past damage", faults(func(w *modelFaults) { w.anyFormat = true })},

	{"another format is read", "another format", faults(func(w *modelFaults) { w.anyFormat = true })},
	{"another format is overwritten", "another format", faults(func(w *modelFaults) { w.overwrite = true })},
	{"another format is deleted", "another format", faults(func(w *modelFaults) { w.remove = true })},
	{"another format is overwritten", "another format among many", faults(func(w *modelFaults) { w.overwrite = true })},
	{"a refused write fails the next", "another format among many", modelBackend(func(m *model) stet.Store { return &aborting{model: m} })},
	{"another format is overwritten in transactions", "another format in a transaction", binding(func(m *model, s stet.Store) stet.Store {
		v := s.(modelVerbs)
		v.wrong = &modelFaults{overwrite: true}
		return v
	})},
	{"a refusal spoils the transaction", "another format in a transaction", binding(spoiling)},

	{"a changed version is nobody's business", "another version", modelBackend(func(m *model) stet.Store { return accepting{m} })},

	{"time goes back with the clock", "instants ahead", faults(func(w *modelFaults) { w.stampNow = true })},
	{"DueAt is counted from a clock that went back", "instants ahead", faults(func(w *modelFaults) { w.dueNow = true })},
	{"a life begins before the one before it", "instants ahead", faults(func(w *modelFaults) { w.bornNow = true })},
	{"a result is older than its run", "instants ahead", faults(func(w *modelFaults) { w.endedNow = true })},
	{"time goes back in transactions", "instants ahead", binding(func(m *model, s stet.Store) stet.Store {
		v := s.(modelVerbs)
		v.wrong = &modelFaults{stampNow: true}
		return v
	})},

	{"what was not confirmed is a yes", "unconfirmed", replicas(func(bool) bool { return false })},
	{"the second try of what was not confirmed is a yes", "unconfirmed", replicas(func(wrote bool) bool { return wrote })},
	{"duplicates wait to be confirmed", "unconfirmed", replicas(func(bool) bool { return true })},
	{"what was not confirmed is granted", "unconfirmed claims", replicas(func(bool) bool { return false })},
	{"the second try of what was not confirmed is granted", "unconfirmed claims", replicas(func(wrote bool) bool { return wrote })},
}

// faults returns models with faults.
func faults(how func(w *modelFaults)) Backend {
	return modelBackend(func(m *model) stet.Store { how(m.wrong); return m })
}

// spoiling refuses all that comes after an error.
func spoiling(_ *model, s stet.Store) stet.Store {
	spoilt := false
	v := s.(modelVerbs)
	write := v.write
	v.write = func(ctx context.Context, change func(d *modelData) error) error {
		if spoilt {
			return errors.New("the transaction is aborted")
		}
		err := write(ctx, change)
		spoilt = err != nil
		return err
	}
	return v
}

// aborting is a model in which a refused write fails the one after it, as if they were one group.
type aborting struct {
	*model
	refused atomic.Bool
}

func (a *aborting) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if a.refused.Swap(false) {
		return stet.Head{}, errors.New("the group has failed")
	}
	got, err := a.model.Replace(ctx, prev, h, b)
	a.refused.Store(errors.Is(err, stet.ErrCorrupt))
	return got, err
}

// accepting is a model in which no version is stale.
type accepting struct{ *model }

func (a accepting) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := a.model.Replace(ctx, prev, h, b)
	if errors.Is(err, stet.ErrStale) {
		return a.model.Replace(ctx, got.Version, h, b)
	}
	return got, err
}

// replicated is a memstore whose writes have to be confirmed by a replica, which may be away.
type replicated struct {
	*memstore.Store
	asks func(wrote bool) bool // whether an answer has to be confirmed; nil: if it wrote, or met what the caller wrote
	away atomic.Bool
}

var errUnconfirmed = errors.New("the write was not confirmed")

// confirm is the error of an answer, unless it has to be confirmed and cannot be.
func (s *replicated) confirm(wrote, own bool, err error) error {
	asks := wrote || own
	if s.asks != nil {
		asks = s.asks(wrote)
	}
	if s.away.Load() && asks {
		return errUnconfirmed
	}
	return err
}

func (s *replicated) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	got, err := s.Store.Create(ctx, r)
	return got, s.confirm(err == nil, errors.Is(err, stet.ErrExists) && got.Version == r.Version, err)
}

func (s *replicated) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := s.Store.Replace(ctx, prev, h, b)
	return got, s.confirm(err == nil, errors.Is(err, stet.ErrStale) && got.Version == h.Version, err)
}

// replicas returns replicated stores that ask for what asks says; nil is as it should be.
func replicas(asks func(wrote bool) bool) Backend {
	return Backend{
		Open: func(_ testing.TB, _ string, clock func() time.Time) stet.Store {
			return &replicated{Store: memstore.New(memstore.Config{Clock: clock}), asks: asks}
		},
		Unconfirmed: func(_ testing.TB, s stet.Store) func() {
			away := &s.(*replicated).away
			away.Store(true)
			return func() { away.Store(false) }
		},
	}
}

// These laws hold for what is broken above, before that.
func TestReplicatedKeepsTheLaws(t *testing.T) {
	for _, l := range unconfirmedLaws {
		if got := try(t, l, replicas(nil)); got.failed || got.skipped {
			t.Errorf("%s: %s", l.name, got)
		}
	}
}
