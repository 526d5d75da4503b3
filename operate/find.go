package operate

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

// Found is a record that a search found.
type Found struct {
	By  string `json:"by"` // key, id, trace, downstream-key, provider-id
	Key Record `json:"record"`
}

// Search is what a search found.
type Search struct {
	Found   []Found  `json:"found"`
	More    bool     `json:"more"`    // the search ended before it had looked through all
	Skipped []string `json:"skipped"` // what was not searched, by the words of [Found]: the role, or the store, does not allow it
}

// SearchQuery says what is searched for.
type SearchQuery struct {
	Text  string     `json:"q,omitzero"`
	Scope stet.Scope `json:"scope,omitzero"` // "": in all
	Quick bool       `json:"quick,omitzero"` // only where an index answers
}

// search is one look for records, under any name that people know them by.
type search struct {
	*Desk
	SearchQuery
	seen map[stet.ID]bool
	Search
}

// Find searches by key, by id, by trace, and by the names of other systems. It looks where an index
// answers, and then, unless it is to be quick, for a bounded time through the records. It takes a
// viewer, for whom keys and other systems' names are skipped.
func (d *Desk) Find(ctx context.Context, q SearchQuery) (Search, error) {
	s := search{d, q, map[stet.ID]bool{}, Search{Found: []Found{}, Skipped: []string{}}}
	if s.Text = strings.TrimSpace(s.Text); s.Text == "" || len(s.Text) > maxSought {
		return s.Search, BadParameter("q", "say what to look for: a key, an id, a trace id, or what a provider calls it")
	}
	if err := d.caller.within(&s.Scope); err != nil {
		return s.Search, err
	}
	looks := []struct {
		do    func(context.Context) error
		finds []string
	}{{s.byID, []string{byItsID}}, {s.byName, []string{byDownstream, byProvider}}, {s.byKey, []string{byTheKey}},
		{s.byTrace, []string{byTrace}}}
	if d.caller.Role < Operator { // a viewer could guess keys
		s.Skipped = append(s.Skipped, byTheKey, byDownstream, byProvider)
		looks = slices.Delete(looks, 1, 3)
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for _, look := range looks {
		switch err := look.do(ctx); {
		case errors.Is(err, stet.ErrUnsupported):
			s.Skipped = append(s.Skipped, look.finds...)
		case err != nil:
			return s.Search, unavailable
		}
	}
	return s.Search, nil
}

// add takes what the caller may see, once.
func (s *search) add(ctx context.Context, by string, head *stet.Head) {
	switch {
	case s.seen[head.ID], !s.caller.Allows(head.Scope), s.Scope != "" && s.Scope != head.Scope, head.Scope == stet.OwnScope:
	case len(s.Found) >= maxFound:
		s.More = true
	default:
		s.seen[head.ID] = true
		s.Found = append(s.Found, Found{By: by, Key: s.detailed(ctx, head)})
	}
}

func (s *search) byID(ctx context.Context) error {
	if !isTag(s.Text) {
		return nil
	}
	head, err := s.engine.Operator().ByTag(ctx, s.Text)
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
	heads, err := s.engine.Operator().Find(ctx, s.Scope, s.Text)
	for i := range heads {
		by := byProvider
		if heads[i].DownstreamKey == s.Text {
			by = byDownstream
		}
		s.add(ctx, by, &heads[i])
	}
	return err
}

// byKey looks where no walk is needed, which is in the scope that was named, or else in the
// default, and then, unless one was named, in all.
func (s *search) byKey(ctx context.Context) error {
	id := stet.ID{Scope: cmp.Or(s.Scope, stethttp.DefaultScope), Key: stet.Key(s.Text)}
	switch rec, err := s.engine.Get(stet.WithMaxBody(ctx, 0), id); {
	case err == nil:
		s.add(ctx, byTheKey, &rec.Head)
	case !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrCorrupt):
		return err
	}
	if s.Scope != "" {
		return nil
	}
	return s.sweep(ctx, byTheKey, stet.Query{Key: stet.Key(s.Text)})
}

func (s *search) byTrace(ctx context.Context) error {
	if len(s.Text) != traceDigits || strings.Trim(s.Text, "0123456789abcdef") != "" {
		return nil
	}
	return s.sweep(ctx, byTrace, stet.Query{TraceID: s.Text, Scope: s.Scope})
}

// sweep lists by a field that stores have no index for: first among the unknown records, which are
// few and are what people look for, and then among all, for as long as a look may take. One search
// does so at a time; others wait for it as long.
func (s *search) sweep(ctx context.Context, by string, q stet.Query) error {
	if s.Quick {
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
