package memstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// Due implements [stet.Store]. Records that fall due at the same instant are ordered by scope, then
// key.
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	from, err := parsePlace(q.After)
	if err != nil {
		return nil, "", err
	}
	now, n := s.now(), q.Bound()
	var found []stet.Head
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, waiting := range [...]queue{sh.open, sh.ended} {
			left := n + 1 // one more tells that there is another page
			waiting.over(now, from, func(e *entry) bool {
				if e.matches(&q, now) {
					found = append(found, stet.Head{})
					e.head(&found[len(found)-1], now)
					left--
				}
				return left > 0
			})
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(found, func(a, b stet.Head) int { return cmp.Or(a.DueAt.Compare(b.DueAt), compare(a.ID, b.ID)) })
	if len(found) <= n {
		return found, "", nil
	}
	last := &found[n-1]
	return found[:n], fmt.Sprintf("%d.", last.DueAt.UnixMicro()) + base64.RawURLEncoding.EncodeToString(codec.AppendID(nil, last.ID)), nil
}

// parsePlace reads a cursor of Due. For "" it returns nil.
func parsePlace(cursor string) (*place, error) {
	if cursor == "" {
		return nil, nil
	}
	due, id, _ := strings.Cut(cursor, ".")
	at, err := strconv.ParseInt(due, 10, 64)
	name, err2 := base64.RawURLEncoding.DecodeString(id)
	last, ok := codec.ID(string(name))
	if err != nil || err2 != nil || !ok {
		return nil, fmt.Errorf("memstore: %q is no cursor", cursor)
	}
	return &place{at, last}, nil
}

// matches applies the query to the fields that it compares.
func (e *entry) matches(q *stet.Query, now int64) bool {
	l := e.label
	h := stet.Head{State: e.state, Route: l.route, Status: int(e.status), CreatedAt: instant(e.created), AsOf: instant(now),
		Path: *e.path, Method: l.method, Escalated: e.flags&escalated != 0}
	h.Scope, h.Key = l.scope, e.key
	if e.rare != nil && (q.Cause != "" || q.TraceID != "") {
		e.rare.unpack(&h)
	}
	if q.Tag != "" {
		h.Tag = e.name(q.Tag)
	}
	return q.Matches(&h)
}

// spot is a record's place in a list.
type spot struct {
	born uint64
	id   stet.ID
}

// List implements [stet.Lister].
func (s *Store) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	after, err := uint64(0), error(nil)
	if q.After != "" {
		if after, err = strconv.ParseUint(q.After, 10, 64); err != nil {
			return nil, "", fmt.Errorf("memstore: %q is no cursor", q.After)
		}
	}
	order := func(a, b spot) int { return cmp.Compare(b.born, a.born) }
	if q.Oldest {
		order = func(a, b spot) int { return cmp.Compare(a.born, b.born) }
	}
	now, n := s.now(), q.Bound()
	var found []spot
	err = s.among(ctx, &q, func(e *entry) {
		at := spot{e.born, e.id()}
		if (q.After == "" || order(at, spot{born: after}) > 0) && e.matches(&q, now) {
			found = append(found, at)
		}
		if len(found) > 8*n { // of those many, n are for this page
			slices.SortFunc(found, order)
			found = found[:n+1]
		}
	})
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(found, order)
	next := ""
	if len(found) > n {
		found = found[:n]
		next = strconv.FormatUint(found[n-1].born, 10)
	}
	ids := make([]stet.ID, len(found))
	for i := range found {
		ids[i] = found[i].id
	}
	return s.heads(ids, now), next, nil
}

// among visits the records that the query may select: those with its tag, or all if it has none.
func (s *Store) among(ctx context.Context, q *stet.Query, visit func(*entry)) error {
	if q.Tag != "" {
		for _, hash := range s.bearing(q.Tag) {
			sh := &s.shards[hash%shards]
			sh.mu.Lock()
			for e := sh.records[hash]; e != nil; e = e.next {
				visit(e)
			}
			sh.mu.Unlock()
		}
		return ctx.Err()
	}
	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.shards[i].each(visit)
	}
	return nil
}

// heads unpacks the records that still exist.
func (s *Store) heads(ids []stet.ID, now int64) []stet.Head {
	hs := make([]stet.Head, 0, len(ids))
	for _, id := range ids {
		sh, h := s.shard(id)
		sh.mu.Lock()
		if e := sh.find(h, id); e != nil {
			hs = append(hs, stet.Head{})
			e.head(&hs[len(hs)-1], now)
		}
		sh.mu.Unlock()
	}
	return hs
}

func (sh *shard) each(visit func(*entry)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, first := range sh.records {
		for e := first; e != nil; e = e.next {
			visit(e)
		}
	}
}

func compare(a, b stet.ID) int {
	return cmp.Or(strings.Compare(string(a.Scope), string(b.Scope)), strings.Compare(string(a.Key), string(b.Key)))
}

// Count implements [stet.Counter]. Without a filter other than states it costs nothing.
func (s *Store) Count(ctx context.Context, q stet.Query) (int, error) {
	if q.ByState() {
		n := int64(0)
		for st := range s.counts {
			if len(q.States) == 0 || slices.Contains(q.States, stet.State(st)) {
				n += s.counts[st].Load()
			}
		}
		return int(n), nil
	}
	now, n := s.now(), 0
	for i := range s.shards {
		if err := ctx.Err(); err != nil || q.Limit > 0 && n >= q.Limit {
			return n, err
		}
		s.shards[i].each(func(e *entry) {
			if e.matches(&q, now) {
				n++
			}
		})
	}
	return n, nil
}
