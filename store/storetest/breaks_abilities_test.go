package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

var abilityBreaks = []storeBreak{
	{"List leaves one out", "list", func(s *broken) {
		s.list = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			heads, next, err := s.Store.List(ctx, q)
			return heads[min(1, len(heads)):], next, err
		}
	}},
	{"List ignores the cursor", "list", func(s *broken) {
		s.list = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			q.After = ""
			return s.Store.List(ctx, q)
		}
	}},
	{"List's cursor is an offset", "list while changing", func(s *broken) {
		s.list = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			all, _, err := s.Store.List(ctx, stet.Query{Limit: stet.MaxLimit})
			return page(all, q.After, q.Limit, err)
		}
	}},
	{"List knows no tags", "tag", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		q.Tag = ""
		return s.Store.List(context.Background(), q)
	})},
	{"a tag is another's", "a shared tag", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		heads, next, err := s.Store.List(context.Background(), q)
		return heads[:min(1, len(heads))], next, err
	})},
	{"a tag outlives its record", "tag after reaping", func(s *broken) {
		had := map[string]stet.Head{}
		s.spoilHeads(func(h *stet.Head) { had[h.Tag] = *h })
		s.list = func(_ context.Context, q stet.Query) ([]stet.Head, string, error) {
			return []stet.Head{had[q.Tag]}, "", nil
		}
	}},
	{"List looks at no path", "filters", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		q.Path = ""
		return s.Store.List(context.Background(), q)
	})},
	{"Count takes every unknown record for a dead letter", "filters", func(s *broken) {
		s.count = func(ctx context.Context, q stet.Query) (int, error) {
			if q.Escalated {
				q.Escalated, q.States = false, []stet.State{stet.Unknown}
			}
			return s.Store.Count(ctx, q)
		}
	}},
	{"the oldest is the newest", "oldest", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		q.Oldest = false
		return s.Store.List(context.Background(), q)
	})},
	{"List's cursor is an offset", "oldest while changing", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		all, _, err := s.Store.List(context.Background(), stet.Query{Limit: stet.MaxLimit, Oldest: q.Oldest})
		return page(all, q.After, q.Limit, err)
	})},
	{"a record that changes its state comes again", "list while states change", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		all, _, err := s.Store.List(context.Background(), stet.Query{Limit: stet.MaxLimit})
		at := func(h stet.Head) string { return fmt.Sprint(h.State, " ", h.Key) }
		all = slices.DeleteFunc(all, func(h stet.Head) bool { return at(h) <= q.After })
		if slices.SortFunc(all, func(a, b stet.Head) int { return cmp.Compare(at(a), at(b)) }); err != nil || len(all) < 2 {
			return all, "", err
		}
		return all[:1], at(all[0]), nil
	})},
	{"the next page begins before the end of this one", "long list", lists(func(s *broken, q stet.Query) ([]stet.Head, string, error) {
		heads, next, err := s.Store.List(context.Background(), q)
		if q.Route == "seldom" && q.After == "" {
			q.Limit = 1
			_, next, err = s.Store.List(context.Background(), q)
		}
		return heads, next, err
	})},
	{"Count counts too many", "count", func(s *broken) {
		s.count = func(ctx context.Context, q stet.Query) (int, error) {
			n, err := s.Store.Count(ctx, q)
			return n + 1, err
		}
	}},
	{"Count knows no latest", "newer than", func(s *broken) {
		s.count = func(ctx context.Context, q stet.Query) (int, error) {
			q.NewerThan = 0
			return s.Store.Count(ctx, q)
		}
	}},
	{"Wait wakes nobody", "wait", func(s *broken) {
		s.wait = func(ctx context.Context, id stet.ID, seen stet.Version) error {
			if r, err := s.Store.Get(ctx, id); err != nil || r.Version != seen {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	{"Wait keeps the end of the context to itself", "wait", func(s *broken) {
		s.wait = func(ctx context.Context, id stet.ID, seen stet.Version) error {
			_ = s.Store.Wait(ctx, id, seen)
			return nil
		}
	}},

	{"Find knows no scopes", "find scopes", func(s *broken) {
		s.find = func(ctx context.Context, _ stet.Scope, name string) ([]stet.Head, error) {
			return s.Store.Find(ctx, "", name)
		}
	}},
	{"Find forgets scopes after its bound", "find scopes", func(s *broken) { // K11
		s.find = func(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
			heads, err := s.Store.Find(ctx, "", name)
			return slices.DeleteFunc(heads, func(h stet.Head) bool { return scope != "" && h.Scope != scope }), err
		}
	}},
	{"Find knows keys only", "find", func(s *broken) {
		s.find = only(s, func(h *stet.Head, name string) bool { return h.DownstreamKey == name })
	}},
	{"Find knows ids only", "find", func(s *broken) {
		s.find = only(s, func(h *stet.Head, name string) bool { return h.DownstreamID == name })
	}},
	{"Find does not tell upper from lower case", "find", func(s *broken) {
		s.find = func(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
			upper, err := s.Store.Find(ctx, scope, strings.ToUpper(name))
			lower, err2 := s.Store.Find(ctx, scope, name)
			return slices.CompactFunc(append(upper, lower...), func(a, b stet.Head) bool { return a.ID == b.ID }), cmp.Or(err, err2)
		}
	}},
	{"Find finds by names of before", "find", func(s *broken) {
		had := map[string]stet.ID{}
		s.spoilHeads(func(h *stet.Head) { had[h.DownstreamID] = h.ID })
		s.find = func(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
			heads, err := s.Store.Find(ctx, scope, name)
			if r, gone := s.Store.Get(ctx, had[name]); len(heads) == 0 && gone == nil && name != "" {
				heads = append(heads, r.Head)
			}
			return heads, err
		}
	}},
	{"Find knows no bounds", "find bounds", func(s *broken) {
		s.find = func(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
			all, _, err := s.Store.List(ctx, stet.Query{Limit: stet.MaxLimit})
			return slices.DeleteFunc(all, func(h stet.Head) bool { return h.DownstreamKey != name }), err
		}
	}},

	{"an entry is missing", "history", func(s *broken) {
		s.spoilHistory(func(all []stet.Change) []stet.Change { return all[min(1, len(all)):] })
	}},
	{"refused changes have entries", "history", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			got, err := s.Store.Replace(ctx, prev, h, b)
			if errors.Is(err, stet.ErrStale) && h.Note != nil {
				again := got
				again.Note = h.Note
				_, _ = s.Store.Replace(ctx, got.Version, again, nil)
			}
			return got, err
		}
	}},
	{"a note is one for ever", "history", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			if was, err := s.Store.Get(ctx, h.ID); err == nil && h.Note == nil {
				h.Note = was.Note
			}
			return s.Store.Replace(ctx, prev, h, b)
		}
	}},
	{"an empty note is none", "history", func(s *broken) {
		s.spoilHeads(func(h *stet.Head) {
			if h.Note != nil && *h.Note == (stet.Note{}) {
				h.Note = nil
			}
		})
	}},
	{"evidence is altered", "history", func(s *broken) {
		s.changes(func(c *stet.Change) { c.Note.Evidence = strings.ToValidUTF8(c.Note.Evidence, "?") })
	}},
	{"From is what it became", "history", func(s *broken) { s.changes(func(c *stet.Change) { c.From = c.To }) }},
	{"the instant is the reader's", "history", func(s *broken) { s.changes(func(c *stet.Change) { c.At = s.clock().UTC() }) }},
	{"the history goes with the record", "history outlives", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			all, next, err := s.Store.History(ctx, q)
			return slices.DeleteFunc(all, func(c stet.Change) bool { _, err := s.Store.Get(ctx, c.ID); return err != nil }), next, err
		}
	}},
	{"the history begins with its beginning", "history pages", func(s *broken) {
		s.spoilHistory(func(all []stet.Change) []stet.Change { slices.Reverse(all); return all })
	}},
	{"the history's cursor is an offset", "history pages", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			all, _, err := s.Store.History(ctx, stet.HistoryQuery{ID: q.ID, Limit: stet.MaxLimit})
			return page(all, q.After, q.Limit, err)
		}
	}},
	{"the history of one is that of all", "history pages", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			q.ID = stet.ID{}
			return s.Store.History(ctx, q)
		}
	}},
	{"any cursor is taken", "history pages", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			if _, err := strconv.Atoi(q.After); err != nil {
				q.After = ""
			}
			return s.Store.History(ctx, q)
		}
	}},
	{"Append adds nothing", "history appended", func(s *broken) {
		s.add = func(context.Context, stet.Change) error { return nil }
	}},
	{"Append takes its caller's clock", "history appended", func(s *broken) {
		s.changes(func(c *stet.Change) {
			if c.Note.Action == "reveal" {
				c.At = time.Unix(1, 0).UTC()
			}
		})
	}},
	{"Append moves a record", "history appended", func(s *broken) {
		s.changes(func(c *stet.Change) { c.From, c.To = stet.Running, stet.Running })
	}},
	{"one filter is forgotten where there are two", "history filters", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			if q.Tag != "" {
				q.Who = ""
			}
			return s.Store.History(ctx, q)
		}
	}},
	{"a filter takes what begins like it", "history filters", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			who := q.Who
			q.Who, q.Limit = "", stet.MaxLimit
			all, _, err := s.Store.History(ctx, q)
			return slices.DeleteFunc(all, func(c stet.Change) bool { return !strings.HasPrefix(c.Note.Who, who) }), "", err
		}
	}},
	{"the history ends where a page has looked enough", "rare history", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			all, next, err := s.Store.History(ctx, q)
			if len(all) == 0 {
				next = ""
			}
			return all, next, err
		}
	}},
	{"losers of a race are in the history", "history of concurrent writers", loseOne},

	{"Trim removes what is young", "history trimmed", func(s *broken) {
		s.trim = func(ctx context.Context, _ time.Duration, limit int) (int, error) { return s.Store.Trim(ctx, 0, limit) }
	}},
	{"Trim knows no bounds", "history trimmed", func(s *broken) {
		s.trim = func(ctx context.Context, age time.Duration, _ int) (int, error) {
			return s.Store.Trim(ctx, age, stet.MaxLimit)
		}
	}},
	{"Erase leaves the tag", "history erased", func(s *broken) {
		s.changes(func(c *stet.Change) {
			if c.Note.Why == stet.WhyErased {
				c.Tag = "k_0123456789abcdef"
			}
		})
	}},
	{"Erase takes the whole scope", "history erased", func(s *broken) {
		s.erase = func(ctx context.Context, q stet.HistoryQuery) (int, error) {
			if q.ID.Scope != "" {
				q.ID, q.Scope = stet.ID{}, q.ID.Scope
			}
			return s.Store.Erase(ctx, q)
		}
	}},
	{"Erase removes the entry", "history erased", func(s *broken) {
		s.spoilHistory(func(all []stet.Change) []stet.Change {
			return slices.DeleteFunc(all, func(c stet.Change) bool { return c.Note.Why == stet.WhyErased })
		})
	}},
	{"Trim moves the places of pages", "forgotten while paging", func(s *broken) {
		s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
			all, _, err := s.Store.History(ctx, stet.HistoryQuery{Limit: stet.MaxLimit})
			from := len(all) // how many come after the cursor
			if q.After != "" {
				from, _ = strconv.Atoi(q.After)
			}
			rest := all[max(0, len(all)-from):]
			rest = rest[:min(len(rest), q.Bound())]
			if from -= len(rest); from <= 0 || len(rest) == 0 {
				return rest, "", err
			}
			return rest, strconv.Itoa(from), err
		}
	}},
	{"Reap removes what was left running", "reap", reapAlso(func(h *stet.Head) bool { return h.State == stet.Running })},
	{"Reap removes what nobody knows", "reap", reapAlso(func(h *stet.Head) bool { return h.State == stet.Unknown })},
	{"Reap does not keep what expired", "reap", reapAlso(func(h *stet.Head) bool { return h.Rules.KeepExpired > 0 })},
	{"Reap knows no bounds", "reap", func(s *broken) {
		s.reap = func(ctx context.Context, _ int) (int, error) { return s.Store.Reap(ctx, stet.MaxLimit) }
	}},
	{"Reap leaves what may be retried", "reap", func(s *broken) {
		s.reap = func(ctx context.Context, limit int) (int, error) {
			kept, _, err := s.Store.Due(ctx, stet.Query{States: []stet.State{stet.Retryable}})
			n, err2 := s.Store.Reap(ctx, limit)
			for _, h := range kept {
				_, _ = s.Store.Create(ctx, stet.Record{Head: h})
			}
			return n - len(kept), cmp.Or(err, err2)
		}
	}},
	{"Reap removes what changed meanwhile", "reap concurrently", func(s *broken) {
		seen := sync.OnceValues(func() ([]stet.Head, error) {
			heads, _, err := s.Store.Due(context.Background(), stet.Query{})
			return heads, err
		})
		s.reap = func(ctx context.Context, limit int) (n int, err error) {
			heads, err := seen()
			for _, h := range heads {
				if r, err := s.Store.Get(ctx, h.ID); n < limit && err == nil && s.Store.Delete(ctx, h.ID, r.Version) == nil {
					n++
				}
			}
			return n, err
		}
	}},
}

// only finds what a memstore finds, and match with it.
func only(s *broken, match func(h *stet.Head, name string) bool) func(context.Context, stet.Scope, string) ([]stet.Head, error) {
	return func(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
		heads, err := s.Store.Find(ctx, scope, name)
		return slices.DeleteFunc(heads, func(h stet.Head) bool { return !match(&h, name) }), err
	}
}

func (s *broken) changes(how func(c *stet.Change)) {
	s.spoilHistory(func(all []stet.Change) []stet.Change {
		for i := range all {
			how(&all[i])
		}
		return all
	})
}

// lists breaks List.
func lists(how func(s *broken, q stet.Query) ([]stet.Head, string, error)) func(s *broken) {
	return func(s *broken) {
		s.list = func(_ context.Context, q stet.Query) ([]stet.Head, string, error) { return how(s, q) }
	}
}

func page[T any](all []T, after string, limit int, err error) ([]T, string, error) {
	from, _ := strconv.Atoi(after)
	to := min(len(all), from+max(1, limit))
	if to == len(all) {
		return all[min(from, to):to], "", err
	}
	return all[from:to], strconv.Itoa(to), err
}

// reapAlso removes what is due and chosen, too.
func reapAlso(chosen func(h *stet.Head) bool) func(s *broken) {
	return func(s *broken) {
		s.reap = func(ctx context.Context, limit int) (int, error) {
			heads, _, err := s.Store.Due(ctx, stet.Query{})
			for _, h := range heads {
				if chosen(&h) {
					_ = s.Store.Delete(ctx, h.ID, h.Version)
				}
			}
			n, err2 := s.Store.Reap(ctx, limit)
			return n, cmp.Or(err, err2)
		}
	}
}
