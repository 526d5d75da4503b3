package figures

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/operate"
)

// viewFor is how old the figures may be that a reader is given. The store is asked no more often.
const viewFor = 2 * time.Second

// views keeps the figures of all processes.
type views struct {
	last    atomic.Pointer[view]
	looking sync.Mutex // held while the store is asked, and guards what follows
	peers   []peer     // as last read
	all     time.Time  // local, when every slot is looked at again
}

// view is what all boards know, as of an instant.
type view struct {
	until      time.Time // local
	figures    operate.Figures
	asked      map[string][]seen // by the record's id, of each process
	forgot     time.Time         // when a process last forgot one before its time, or may have
	mismatches map[string]operate.Mismatch
}

// Figures returns the figures of all processes, up to 2 s old. While the store does not answer, or
// before [Board.Run] is called, those of others are as they were read last. It is fit for
// [admin.Config].Figures.
func (b *Board) Figures(ctx context.Context) operate.Figures { return b.look(ctx).figures }

// Asking returns what all processes know of the clients of a record, by its id: how often they were
// told that it is unknown since it is, and the last request with another content. A zero instant
// means that it is not unknown. It is fit for [admin.Config].Asking, and asks the store no more
// often than [Board.Figures] does.
func (b *Board) Asking(ctx context.Context, id string, unknownSince time.Time) (a *operate.Asking, m *operate.Mismatch) {
	v := b.look(ctx)
	if last, ok := v.mismatches[id]; ok {
		m = &last
	}
	if unknownSince.IsZero() {
		return nil, m
	}
	since := unknownSince.Add(-drift) // the instants are this board's
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

// look returns a view. While one call asks the store, the others have the view before.
func (b *Board) look(ctx context.Context) *view {
	v := b.views.last.Load()
	if v != nil && time.Now().Before(v.until) {
		return v
	}
	if v == nil {
		b.views.looking.Lock()
	} else if !b.views.looking.TryLock() {
		return v
	}
	defer b.views.looking.Unlock()
	if v = b.views.last.Load(); v != nil && time.Now().Before(v.until) { // made meanwhile
		return v
	}
	if e := b.engine.Load(); e != nil {
		began := time.Now()
		if all, err := peers(ctx, e, b.views.reach()); err == nil {
			if b.views.peers = all; len(all) == slots {
				b.views.all = time.Now().Add(time.Minute)
			}
			b.guessTime(all, began)
		}
	}
	v = b.merge(b.views.peers)
	v.until = time.Now().Add(viewFor)
	b.views.last.Store(v)
	return v
}

// reach is how many slots are read. Processes take the first one that is free, so that it is enough
// to look a little further than the last record that was there, and everywhere once a minute.
func (v *views) reach() int {
	if !time.Now().Before(v.all) {
		return slots
	}
	last := -1
	for i := range v.peers {
		if v.peers[i].head.State != 0 {
			last = i
		}
	}
	return min(last+3, slots)
}

// guessTime sets the clock of a board without a record of its own by when others' were read.
func (b *Board) guessTime(all []peer, asked time.Time) {
	b.mu.Lock()
	mine := b.mine
	b.mu.Unlock()
	for i := range all {
		if at := all[i].head.AsOf; mine == none && !at.IsZero() {
			b.tune(at, asked)
			return
		}
	}
}

// merging is a view that is being made.
type merging struct {
	*view
	now             time.Time
	hour, day       ring
	routes, shadows map[string]*tally
}

// merge makes a view of what this process and others know.
func (b *Board) merge(all []peer) *view {
	own := b.own(b.state())
	b.mu.Lock()
	m := &merging{now: b.clock.store(time.Now()),
		view: &view{asked: map[string][]seen{}, mismatches: map[string]operate.Mismatch{}},
		hour: newRing(fineStep, fineSteps+2), day: newRing(dayStep, daySteps+2),
		routes: map[string]*tally{}, shadows: map[string]*tally{}}
	mine, name := b.mine, cmp.Or(b.name, "this process")
	b.mu.Unlock()
	m.hour.forward(m.hour.number(m.now))
	m.day.forward(m.day.number(m.now))
	if !b.reader {
		m.process(&own, operate.Gateway{Name: name, State: own.State, SeenAt: m.now})
	}
	for i := range all {
		p := &all[i]
		if p.head.State == 0 || i == mine || p.head.AsOf.Sub(p.head.UpdatedAt) > retain { // nothing may remove it
			continue
		}
		m.process(&p.record, operate.Gateway{Name: p.head.Holder, State: p.state(),
			SeenAt: p.head.UpdatedAt.UTC(), Partial: p.broken})
	}
	if len(m.figures.Gateways) == 0 { // a reader alone: nothing is counted
		m.forgot = m.now
	}
	m.figures.At = m.now
	m.figures.Hour, m.figures.Day = series(&m.hour, m.now), series(&m.day, m.now)
	m.figures.Routes = m.routeFigures()
	slices.SortFunc(m.figures.Gateways, func(a, b operate.Gateway) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.StartedAt.Compare(b.StartedAt))
	})
	return m.view
}

// process adds what one process knows.
func (m *merging) process(r *record, g operate.Gateway) {
	hour := newRing(fineStep, fineSteps+2)
	hour.forward(m.hour.last)
	hour.load(&r.Hour, 0)
	if g.State == ready || g.State == draining {
		g.PerSecond = rate(&hour, m.now)
	}
	g.Version, g.StartedAt, g.Partial = r.Version, r.Began, g.Partial || r.Partial
	m.figures.Gateways = append(m.figures.Gateways, g)
	m.hour.load(&r.Hour, 0)
	m.day.load(&r.Day, 0)
	m.merge(m.routes, r.Routes)
	m.merge(m.shadows, r.Shadows)
	for _, s := range r.Asked {
		m.asked[s.ID] = append(m.asked[s.ID], s)
	}
	if m.forgot = later(m.forgot, r.Forgot); g.Partial {
		m.forgot = m.now
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

// merge adds the rows of one process to those of all. Beyond maxRoutes they have no row of their
// own.
func (m *merging) merge(into map[string]*tally, rows []named) {
	oldest := m.now.UnixNano()/int64(hourStep) - hourSteps + 1
	for i := range rows {
		name := rows[i].Name
		if into[name] == nil && len(into) > maxRoutes {
			name = otherRoutes
		}
		if into[name] == nil {
			into[name] = &tally{}
		}
		sum := rows[i].since(oldest)
		into[name].add(&sum)
	}
}

// whole is the last step that every process has told of whole: a figure may have been on its way
// for as long as from one write to the next, and for a second beside.
func whole(r *ring, now time.Time) int64 { return r.number(now.Add(-every-every/10-time.Second)) - 1 }

// series are the rates of each result that there was, in the order of [Results].
func series(r *ring, now time.Time) []operate.Series {
	until := whole(r, now)
	n := len(r.cells) - 2 // one that is not whole, or two
	all := []operate.Series{}
	for col, name := range columnNames {
		s := operate.Series{Result: name, Until: r.end(until), Step: r.step.Seconds(), PerSecond: make([]float64, n)}
		any := false
		for i := range n {
			c := r.at(until - int64(n-1-i))[col]
			s.PerSecond[i], any = float64(c)/s.Step, any || c > 0
		}
		if any && col != unprotected && col != mismatched {
			all = append(all, s)
		}
	}
	return all
}

// rate is how many requests a second there were in the last minute that is whole.
func rate(r *ring, now time.Time) float64 {
	const steps = time.Minute / fineStep
	var sum tally
	for until, i := whole(r, now), int64(0); i < int64(steps); i++ {
		sum.add(r.at(until - i))
	}
	return float64(sum.requests()) / time.Minute.Seconds()
}

func (m *merging) routeFigures() []operate.RouteFigures {
	all := []operate.RouteFigures{}
	for _, name := range slices.Sorted(maps.Keys(m.routes)) {
		sum := m.routes[name]
		if sum.requests() == 0 { // a day ago
			continue
		}
		f := operate.RouteFigures{Route: name, Results: sum.results(),
			Unprotected: int(sum[unprotected]), Mismatches: int(sum[mismatched])}
		if would := m.shadows[name]; would != nil {
			f.Shadow = would.results()
		}
		all = append(all, f)
	}
	return all
}
