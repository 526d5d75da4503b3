package blackbox

import (
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// movable is a clock that can be moved forward.
type movable struct{ offset atomic.Int64 }

func (m *movable) Now() time.Time          { return time.Now().Add(time.Duration(m.offset.Load())) }
func (m *movable) advance(d time.Duration) { m.offset.Add(int64(d)) }

// local is a Faults in this process: what the fault socket is to a binary.
type local struct {
	*faulty.Store
	clock *movable
	dead  atomic.Bool
}

var _ Faults = (*local)(nil)

func newLocal(s stet.Store, clock *movable) *local {
	return &local{Store: faulty.New(s, 1), clock: clock}
}

func (l *local) Advance(d time.Duration) { l.clock.advance(d) }

func (l *local) Corrupt(scope, key string) {
	l.Store.Corrupt(stet.ID{Scope: stet.Scope(scope), Key: stet.Key(key)})
}

// Up ends all faults, but a death.
func (l *local) Up() {
	if !l.dead.Load() {
		l.Store.Up()
	}
}

// die is what kill -9 looks like from the store: this process never reads or writes again.
func (l *local) die() {
	l.dead.Store(true)
	l.Down()
}
