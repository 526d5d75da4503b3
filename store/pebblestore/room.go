package pebblestore

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ballast is the file that gives way when the disk is full all the same.
const (
	ballast     = "BALLAST"
	ballastSize = 16 << 20
	lookEvery   = 20 * time.Millisecond
	loadAfter   = 5 * time.Second // that the disk was full
)

// room watches how much of the disk is free. New keys look at it; nothing runs in between.
type room struct {
	fs      vfs.FS // below the one that calls exhausted
	dir     string
	reserve uint64

	tight   atomic.Bool
	refused atomic.Uint64 // how often the disk was full

	mu     sync.Mutex // of one that looks
	looked time.Time
	seen   uint64    // refused, when looked at last
	since  time.Time // when it was first seen so
}

func (m *room) init(fs vfs.FS, dir string, reserve uint64) {
	m.fs, m.dir, m.reserve = fs, dir, reserve
	m.full()
}

// full reports whether new keys have to be refused. It looks at the disk, but not more often than
// every 20 ms, and only one caller at a time.
func (m *room) full() bool {
	if m.mu.TryLock() {
		defer m.mu.Unlock()
		if time.Since(m.looked) >= lookEvery {
			m.looked = time.Now()
			m.look()
		}
	}
	return m.tight.Load()
}

// look compares what is free with the reserve. The ballast is beside it: it is made where the
// reserve stays free all the same, but not soon after it had to give way. If the disk is found full
// meanwhile, what was seen before that counts for nothing.
func (m *room) look() {
	refused := m.refused.Load()
	if m.seen != refused {
		m.seen, m.since = refused, time.Now()
	}
	usage, err := m.fs.GetDiskUsage(m.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return // exhausted alone tells
	}
	free := usage.AvailBytes
	enough := m.reserve
	if m.tight.Load() {
		enough += m.reserve / 2
	}
	tight := err != nil || free < enough
	if m.tight.Store(tight); m.refused.Load() != refused {
		m.tight.Store(true)
		return
	}
	if !tight && free >= enough+ballastSize && time.Since(m.since) >= loadAfter {
		if m.load(); m.refused.Load() != refused {
			m.drop()
		}
	}
}

// load makes the ballast if there is none. Without it, the reserve has to do.
func (m *room) load() {
	name := m.fs.PathJoin(m.dir, ballast)
	if info, err := m.fs.Stat(name); err == nil && info.Size() == ballastSize {
		return
	}
	f, err := m.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, err = f.Write(make([]byte, ballastSize))
	if err := errors.Join(err, f.Close()); err != nil {
		_ = m.fs.Remove(name)
	}
}

// exhausted is called when a write found no space, before it is tried again.
func (m *room) exhausted() {
	m.refused.Add(1) // first: one that looks now takes back what it does meanwhile
	m.tight.Store(true)
	m.drop()
}

func (m *room) drop() { _ = m.fs.Remove(m.fs.PathJoin(m.dir, ballast)) }
