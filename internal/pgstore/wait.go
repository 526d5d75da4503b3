package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Wait implements [stet.Waiter].
func (s *Store) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	return s.during(ctx, "wait", func(ctx context.Context) error { return s.wait(ctx, id, seen) })
}

func (s *Store) wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	var rung <-chan struct{}
	pause := rest.FirstLook
	if s.bell != nil {
		var leave func()
		var listening bool
		rung, listening, leave = s.bell.wait(id)
		defer leave()
		if listening {
			pause = rest.LastLook // in case that a notification is lost
		}
	}
	return rest.Look(ctx, pause, rung, func() (bool, error) { return s.gone(ctx, id, seen) })
}

// gone reports whether the record has another version than seen, or is not there.
func (s *Store) gone(ctx context.Context, id stet.ID, seen stet.Version) (bool, error) {
	gone := true
	err := each(ctx, s.pool, sqltext.PostgresVersion, sqltext.PostgresEncoder.ID(nil, id), func(rows Rows) error {
		var version int64
		err := rows.Scan(&version)
		gone = stet.Version(version) != seen
		return err
	})
	return gone, err
}

// ring tells those who wait that a record has changed, or may have.
func (s *Store) ring(o *op, err error) {
	if s.bell == nil || errors.Is(err, stet.ErrStale) || errors.Is(err, stet.ErrNotFound) || errors.Is(err, groupcommit.ErrNothing) {
		return
	}
	s.bell.ring(name(o.Head.ID), o.wasResult())
}

// name is what a notification calls a record: nothing of its key.
func name(id stet.ID) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(id.Scope))
	_, _ = h.Write([]byte{0xff, 0})
	_, _ = h.Write([]byte(id.Key))
	return hex.EncodeToString(h.Sum(nil))
}

// channel of LISTEN and NOTIFY.
const channel = "stet_changes"

// Times of the bell.
const (
	ringPause  = 10 * time.Millisecond // between notifications: each takes a lock in the server that all of them share
	ringTime   = 5 * time.Second
	relisten   = time.Second
	notifySQL  = "SELECT count(pg_notify('" + channel + "', p)) FROM unnest($1::text[]) p"
	maxRinging = 4096 // about as many names in one notification
)

// bell wakes the callers of Wait, in this process and in others. It listens on one connection from
// the first Wait until the store is closed. Notifications are sent after the changes are committed,
// many at a time, in transactions of their own.
type bell struct {
	store *Store

	rooms     rest.Rooms[string] // by name
	started   sync.Once
	listening atomic.Bool

	mu      sync.Mutex
	ringing []string
	missed  bool // names of results were not sent
	busy    bool
}

// wait enters a record's room. The caller has to look at the record after that: only what changes
// from then on rings.
func (b *bell) wait(id stet.ID) (rung <-chan struct{}, listening bool, leave func()) {
	rung, leave = b.rooms.Enter(name(id))
	b.started.Do(func() {
		if b.store.calls.enter() == nil {
			go b.hear()
		}
	})
	return rung, b.listening.Load(), leave
}

// hear listens, and again when the connection breaks. What was missed meanwhile those who wait find
// by looking.
func (b *bell) hear() {
	ctx := b.store.calls.ctx
	defer b.store.calls.leave()
	for ctx.Err() == nil {
		_ = b.store.cfg.Listen(ctx, channel, func() { b.listening.Store(true) }, b.rooms.Ring)
		if b.listening.Swap(false) {
			b.rooms.RingAll()
		}
		rest.For(ctx, relisten)
	}
}

// ring wakes who waits here, at once, and elsewhere, soon. If result is set, it tells caches
// elsewhere as well. Of names that are too many for one notification, those who wait find the
// records by looking. A cache does not look: it is told that it was not told all.
func (b *bell) ring(n string, result bool) {
	b.rooms.Ring(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	room := len(b.ringing) < maxRinging
	if room {
		b.ringing = append(b.ringing, n)
	}
	if room && result {
		b.ringing = append(b.ringing, results+n)
	}
	b.missed = b.missed || result && !room
	if !b.busy && b.store.calls.enter() == nil {
		b.busy = true
		go b.tell()
	}
}

// tell sends notifications until there are none. After a failure that concerns results, it tells
// caches that they were not told all, and tries that until the store is closed.
func (b *bell) tell() {
	over := b.store.calls.ctx
	defer b.store.calls.leave()
	for {
		b.mu.Lock()
		names := b.ringing
		if b.missed {
			names = append(names, results)
		}
		b.ringing, b.missed = nil, false
		if len(names) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), ringTime)
		err := each(ctx, b.store.pool, notifySQL, []any{names}, func(Rows) error { return nil })
		cancel()
		pause := ringPause
		if err != nil {
			pause = relisten
			b.mu.Lock()
			b.missed = b.missed || over.Err() == nil &&
				slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, results) })
			b.mu.Unlock()
		}
		rest.For(over, pause)
	}
}
