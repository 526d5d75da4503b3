package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// The bounds of a search: bytes of what is searched for, records that are found, the time for a
// look beyond what an index answers, and the pages of such a look.
const (
	maxSought   = 1024
	maxFound    = 100
	sweepFor    = 2 * time.Second
	sweepPages  = 100
	traceDigits = 32 // of an id by W3C Trace Context
)

// What a record was found by.
const (
	byTheKey     = "key"
	byItsID      = "id"
	byTrace      = "trace"
	byDownstream = "downstream-key"
	byProvider   = "provider-id"
)

// search is one look for records, under any name that people know them by.
type search struct {
	*handler
	who   principal
	text  string
	scope stet.Scope
	quick bool // only where an index answers
	seen  map[stet.ID]bool
	Search
}

// sought answers GET /api/v1/find. It looks where an index answers, and then, unless it is to be
// quick, for a bounded time through the records.
func (h *handler) sought(c *call) (any, error) {
	s := search{handler: h, who: c.who, seen: map[stet.ID]bool{}, Search: Search{Found: []Found{}, Skipped: []string{}}}
	quick := flagged(&s.quick, "it is 1, or missing", "1")
	asked := parameters{{"q", verbatim(&s.text)}, {"scope", verbatim(&s.scope)}, {"quick", quick}}
	if err := cmp.Or(asked.read(c.URL), c.who.within(&s.scope)); err != nil {
		return nil, err
	}
	if s.text = strings.TrimSpace(s.text); s.text == "" || len(s.text) > maxSought {
		return nil, badParameter("q", "say what to look for: a key, an id, a trace id, or what a provider calls it")
	}
	looks := []struct {
		do    func(context.Context) error
		finds []string
	}{{s.byID, []string{byItsID}}, {s.byName, []string{byDownstream, byProvider}}, {s.byKey, []string{byTheKey}},
		{s.byTrace, []string{byTrace}}}
	if c.who.role < Operator { // a viewer could guess keys
		s.Skipped = append(s.Skipped, byTheKey, byDownstream, byProvider)
		looks = slices.Delete(looks, 1, 3)
	}
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	for _, look := range looks {
		switch err := look.do(ctx); {
		case errors.Is(err, stet.ErrUnsupported):
			s.Skipped = append(s.Skipped, look.finds...)
		case err != nil:
			return nil, unavailable
		}
	}
	return s.Search, nil
}

// add takes what the caller may see, once.
func (s *search) add(ctx context.Context, by string, head *stet.Head) {
	switch {
	case s.seen[head.ID], !s.who.allows(head.Scope), s.scope != "" && s.scope != head.Scope, head.Scope == stet.OwnScope:
	case len(s.Found) >= maxFound:
		s.More = true
	default:
		s.seen[head.ID] = true
		s.Found = append(s.Found, Found{By: by, Key: s.detailed(ctx, head)})
	}
}

func (s *search) byID(ctx context.Context) error {
	if !isTag(s.text) {
		return nil
	}
	head, err := s.engine.Operator().ByTag(ctx, s.text)
	if errors.Is(err, stet.ErrNotFound) {
		return nil
	}
	if err == nil {
		s.add(ctx, byItsID, &head)
	}
	return err
}

// byName finds by what the systems further down know the effect by.
func (s *search) byName(ctx context.Context) error {
	heads, err := s.engine.Operator().Find(ctx, s.scope, s.text)
	for i := range heads {
		by := byProvider
		if heads[i].DownstreamKey == s.text {
			by = byDownstream
		}
		s.add(ctx, by, &heads[i])
	}
	return err
}

// byKey looks where no walk is needed, which is in the scope that was named, or else in the
// default, and then, unless one was named, in all.
func (s *search) byKey(ctx context.Context) error {
	id := stet.ID{Scope: cmp.Or(s.scope, stethttp.DefaultScope), Key: stet.Key(s.text)}
	switch rec, err := s.engine.Get(stet.WithMaxBody(ctx, 0), id); {
	case err == nil:
		s.add(ctx, byTheKey, &rec.Head)
	case !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrCorrupt):
		return err
	}
	if s.scope != "" {
		return nil
	}
	return s.sweep(ctx, byTheKey, stet.Query{Key: stet.Key(s.text)})
}

func (s *search) byTrace(ctx context.Context) error {
	if len(s.text) != traceDigits || strings.Trim(s.text, "0123456789abcdef") != "" {
		return nil
	}
	return s.sweep(ctx, byTrace, stet.Query{TraceID: s.text, Scope: s.scope})
}

// sweep lists by a field that stores have no index for: first among the unknown records, which are
// few and are what people look for, and then among all, for as long as a look may take. One search
// does so at a time; others wait for it as long.
func (s *search) sweep(ctx context.Context, by string, q stet.Query) error {
	if s.quick {
		s.More = true
		return nil
	}
	turn, cancel := context.WithTimeout(ctx, sweepFor)
	defer cancel()
	select {
	case s.sweeping <- struct{}{}:
		defer func() { <-s.sweeping }()
	case <-turn.Done():
		s.More = true
		return nil
	}
	q.Limit = maxFound
	for _, states := range [][]stet.State{{stet.Unknown}, nil} {
		q.States, q.After = states, ""
		if err := s.walk(ctx, by, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) walk(ctx context.Context, by string, q stet.Query) error {
	bound, cancel := context.WithTimeout(ctx, sweepFor)
	defer cancel()
	for range sweepPages {
		heads, next, err := s.engine.Operator().List(bound, q)
		if errors.Is(err, context.DeadlineExceeded) {
			s.More = true // it took too long: what was found by then is of use
			return nil
		}
		if err != nil {
			return err
		}
		for i := range heads {
			s.add(ctx, by, &heads[i])
		}
		if q.After = next; next == "" || len(s.Found) >= maxFound {
			s.More = s.More || next != ""
			return nil
		}
	}
	s.More = true
	return nil
}
