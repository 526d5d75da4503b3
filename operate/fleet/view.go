package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/operate"
)

const (
	freshFor = 2 * time.Second  // how old a view may be before the records are read again
	shownFor = 10 * time.Second // and before those who ask wait for that
	drift    = time.Second      // by how much the instants of a process may be off
)

// views keeps what is known of all processes.
type views struct {
	mu      sync.Mutex
	last    *view
	peers   []peer        // as last read
	ahead   time.Duration // by how much the store's clock was ahead of this process's then
	reading chan struct{} // closed when the reading that is under way has ended; nil: there is none
}

// view is what all boards know, as of an instant.
type view struct {
	made       time.Time // by the local clock
	figures    operate.Figures
	asked      map[string][]sighting // by the record's id, of each process
	forgot     time.Time             // when a process last forgot one before its time, or may have
	mismatches map[string]operate.Mismatch
}

// Figures returns what all processes have counted, up to 10 s old. While the store does not answer,
// or before [Board.Run] is called, other processes are as they were read last. It is fit for
// [operate.Config].Figures.
func (b *Board) Figures(ctx context.Context) operate.Figures { return b.look(ctx).figures }

// Asking returns what all processes know of the clients of a record, by its id: how often they were
// told that it is unknown since it is, and the last request with another content. A zero instant
// means that it is not unknown. It is fit for [operate.Config].Asking, and asks the store no more
// often than [Board.Figures] does.
func (b *Board) Asking(ctx context.Context, id string, unknownSince time.Time) (a *operate.Asking, m *operate.Mismatch) {
	v := b.look(ctx)
	if last, ok := v.mismatches[id]; ok {
		m = &last
	}
	if unknownSince.IsZero() {
		return nil, m
	}
	since := unknownSince.Add(-drift)
	a = &operate.Asking{More: v.forgot.After(since)}
	for _, s := range v.asked[id] {
		if s.Last.After(since) {
			a.Count += s.Count
			a.LastAt = later(a.LastAt, s.Last)
		}
	}
	if a.Count == 0 && !a.More {
		a = nil
	}
	return a, m
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// look returns a view. Those who ask while one is being made have the one before, unless that is
// old; they wait no longer than ctx lasts.
func (b *Board) look(ctx context.Context) *view {
	b.views.mu.Lock()
	v, reading, now := b.views.last, b.views.reading, time.Now()
	if reading == nil && (v == nil || now.Sub(v.made) >= freshFor) {
		reading = make(chan struct{})
		b.views.reading = reading
		go b.read(context.WithoutCancel(ctx), reading) // it goes on if its reader leaves, for others wait for it
	}
	b.views.mu.Unlock()
	if v != nil && now.Sub(v.made) < shownFor {
		return v
	}
	select {
	case <-reading:
	case <-ctx.Done():
	}
	b.views.mu.Lock()
	defer b.views.mu.Unlock()
	if b.views.last == nil {
		return b.merge(nil)
	}
	return b.views.last
}

// read makes a view, and closes done.
func (b *Board) read(ctx context.Context, done chan struct{}) {
	var peers []peer
	var err error
	if e := b.engine.Load(); e != nil {
		peers, err = readPeers(ctx, e)
	}
	b.views.mu.Lock()
	defer b.views.mu.Unlock()
	if err == nil {
		b.views.peers = peers
		var asOf time.Time
		for i := range peers {
			asOf = later(asOf, peers[i].head.AsOf)
		}
		if !asOf.IsZero() {
			b.views.ahead = time.Until(asOf)
		}
	}
	b.views.last, b.views.reading = b.merge(b.views.peers), nil
	close(done)
}

// merge makes a view of what this process and others know. The caller holds the lock of the views.
func (b *Board) merge(peers []peer) *view {
	m := merging{view: &view{made: time.Now(), asked: map[string][]sighting{}, mismatches: map[string]operate.Mismatch{}},
		routes: map[string]*routeTotals{}}
	m.figures.At = m.made.Add(b.views.ahead).UTC()
	b.place.mu.Lock()
	mine, name, unheard, perSecond := b.place.slot, b.place.name, b.place.unheard, b.place.perSecond
	b.place.mu.Unlock()
	if !b.reader {
		own := b.record(b.state())
		own.PerSecond = perSecond
		own.move(b.views.ahead)
		m.add(&own, operate.Gateway{Name: cmp.Or(name, "this process"), State: own.State, SeenAt: m.figures.At, Unheard: unheard})
	}
	for i := range peers {
		switch p := &peers[i]; {
		case p.head.State == 0, !b.reader && name != "" && i == mine:
		case p.head.AsOf.Sub(p.head.UpdatedAt) > told:
			m.forgot = later(m.forgot, p.head.UpdatedAt) // of those who asked until then
		default:
			m.add(&p.record, operate.Gateway{Name: p.head.Holder, State: p.state(), SeenAt: p.head.UpdatedAt.UTC(), Partial: p.broken})
		}
	}
	if len(m.figures.Gateways) == 0 { // a reader alone: nothing is counted
		m.forgot = m.figures.At
	}
	for _, name := range slices.Sorted(maps.Keys(m.routes)) {
		r := m.routes[name]
		m.figures.Routes = append(m.figures.Routes, operate.RouteFigures{Route: name, Results: r.Told, Shadow: r.Shadow,
			Unprotected: r.Unprotected, Mismatches: r.Mismatches})
		m.figures.Results = sum(m.figures.Results, r.Told)
	}
	slices.SortFunc(m.figures.Gateways, func(a, b operate.Gateway) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.StartedAt.Compare(b.StartedAt))
	})
	return m.view
}

// merging is a view that is being made.
type merging struct {
	*view
	routes map[string]*routeTotals
}

// add adds what one process knows.
func (m *merging) add(r *record, g operate.Gateway) {
	g.Version, g.StartedAt, g.Partial = r.Version, r.Began, g.Partial || r.Partial
	if g.State == ready || g.State == draining {
		g.PerSecond = r.PerSecond
	}
	f := &m.figures
	f.Gateways = append(f.Gateways, g)
	if !r.Began.IsZero() && (f.Since.IsZero() || r.Began.Before(f.Since)) {
		f.Since = r.Began
	}
	for i := range r.Routes {
		name := r.Routes[i].Name
		if m.routes[name] == nil {
			m.routes[name] = &routeTotals{}
		}
		m.routes[name].add(&r.Routes[i])
	}
	for _, s := range r.Asked {
		m.asked[s.ID] = append(m.asked[s.ID], s)
	}
	if m.forgot = later(m.forgot, r.Forgot); g.Partial {
		m.forgot = f.At
	}
	for _, s := range r.Mismatches {
		d := m.mismatches[s.ID]
		d.Count += s.Count
		if s.Last.After(d.At) {
			d.At, d.Parts, d.TraceID = s.Last, s.Parts, s.Trace
		}
		m.mismatches[s.ID] = d
	}
}
