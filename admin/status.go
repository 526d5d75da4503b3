package admin

import (
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/stopwatch"
	"github.com/stet-dev/stet/outbox"
)

// status answers GET /api/v1/status. Who is bound to scopes is told what is of those: no gateways,
// no rates, and no warnings, which are of all.
func (h *handler) status(c *call) (any, error) {
	span := "hour"
	if err := (parameters{{"span", oneOf(&span, "it is hour or day", "hour", "day")}}).read(c.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	s := Status{Title: h.Title, TraceURL: h.TraceURL, At: time.Now().UTC(), Double: []Entry{}, Incidents: []Incident{}, Ended: []Ended{}, Gateways: []Gateway{},
		Series: []Series{}, Warnings: []Warning{}}
	s.Store, s.Cache = h.health(ctx)
	if err := h.attention(ctx, c.who, &s); err != nil {
		s.OutboxUnread = h.Outbox != nil // they are read together
		if s.Unread = true; s.Store.OK && err != unlisted {
			return nil, err
		}
	}
	if n, bytes := h.engine.Unstored(); n > 0 && !c.who.bound() {
		s.Unstored = &Unstored{n, bytes}
	}
	if h.Figures != nil {
		f := h.Figures(ctx)
		if s.At = f.At; !c.who.bound() {
			s.Gateways = some(f.Gateways)
			if s.Series = some(f.Hour); span == "day" {
				s.Series = some(f.Day)
			}
		}
	}
	if h.Warnings != nil && !c.who.bound() {
		s.Warnings = some(h.Warnings())
	}
	return s, nil
}

// health says how the store answers, and the cache. Without a gateway's own measurements the store
// is asked once.
func (h *handler) health(ctx context.Context) (Health, *Health) {
	if h.Health != nil {
		return h.Health()
	}
	began := stopwatch.Start(true)
	_, err := h.engine.Get(ctx, probe)
	took := stopwatch.Since(began)
	if err != nil && !errors.Is(err, stet.ErrNotFound) {
		return Health{Name: "store", Why: "it does not answer"}, nil
	}
	return Health{Name: "store", OK: true, P50MS: millis(took), P99MS: millis(took)}, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// maxDead is how many messages are looked at for a token that is bound to scopes.
const maxDead = 10_000

// outboxDead is how many messages wait for a person; nil if there is no outbox. With more there may
// be further ones.
func (h *handler) outboxDead(ctx context.Context, who principal) (dead *int, more bool, err error) {
	if h.Outbox == nil {
		return nil, false, nil
	}
	n := 0
	if !who.bound() {
		counts, err := h.Outbox.Counts(ctx)
		n = int(counts[outbox.Dead] + counts[outbox.Unknown])
		return &n, false, err
	}
	q := outbox.Query{Dead: true, Limit: stet.MaxLimit}
	for range maxDead / q.Limit {
		page, err := h.Outbox.List(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range page {
			if who.allows(page[i].Record.Scope) {
				n++
			}
		}
		if len(page) < q.Limit {
			return &n, false, nil
		}
		q.After = page[len(page)-1].ID
	}
	return &n, true, nil
}

// attention says what needs a person, as far as the store can list its records.
func (h *handler) attention(ctx context.Context, who principal, s *Status) error {
	var f unknownFilter
	if err := who.within(&f.scope); err != nil {
		return err
	}
	all, err := h.unknowns(ctx, who, f)
	if err != nil {
		return err
	}
	s.Unknown, s.Dead, s.Snoozed, s.Waiting, s.OldestUnknown = all.Unknown, all.Dead, all.Snoozed, all.Waiting, all.Oldest
	s.OutboxDead, s.OutboxUnread, s.More = all.OutboxDead, all.OutboxUnread, all.More || all.OutboxMore
	s.Double, s.Incidents, s.Ended = some(all.Double), some(all.Incidents), some(all.Ended)
	s.Incidents = s.Incidents[:min(len(s.Incidents), maxIncidents)]
	return nil
}

// maxIncidents is how many incidents a status has.
const maxIncidents = 20
