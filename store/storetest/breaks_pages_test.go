package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
)

var pageBreaks = []storeBreak{
	{"Due has one page", "due pages", dues(func(_ *broken, heads []stet.Head, _ string, err error) ([]stet.Head, string, error) {
		return heads, "", err
	})},
	{"Due ignores the cursor", "due pages", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			q.After = ""
			return s.Store.Due(ctx, q)
		}
	}},
	{"a page of Due is too long", "due pages", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			q.Limit = q.Bound() + 1
			return s.Store.Due(ctx, q)
		}
	}},
	{"the last page of Due is lost", "due pages", dues(func(_ *broken, heads []stet.Head, next string, err error) ([]stet.Head, string, error) {
		if next == "" {
			return nil, "", err
		}
		return heads, next, err
	})},
	{"pages of Due are each sorted the other way", "due pages", dues(func(_ *broken, heads []stet.Head, next string, err error) ([]stet.Head, string, error) {
		slices.Reverse(heads)
		return heads, next, err
	})},
	{"Due goes on after the instant", "due in one instant", byInstant(func(due, last int64) bool { return due > last })},
	{"Due goes on at the instant", "due in one instant", byInstant(func(due, last int64) bool { return due >= last })},
	{"Due's cursor is an offset", "due while changing", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			all, _, err := s.Store.Due(ctx, stet.Query{Limit: stet.MaxLimit})
			return page(all, q.After, q.Limit, err)
		}
	}},
	{"a walk ends where something came", "due while changing", func(s *broken) {
		had := 0
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			n, _ := s.Store.Count(ctx, stet.Query{Limit: stet.MaxLimit})
			heads, next, err := s.Store.Due(ctx, q)
			if q.After != "" && n != had {
				next = ""
			}
			had = n
			return heads, next, err
		}
	}},
	{"a walk leaves out what moved on before it", "due while changing", func(s *broken) {
		var began time.Time
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			if q.After == "" {
				began = s.clock()
			}
			heads, next, err := s.Store.Due(ctx, q)
			return slices.DeleteFunc(heads, func(h stet.Head) bool { return h.UpdatedAt.After(began) }), next, err
		}
	}},
	{"Due takes any cursor", "due cursor", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			heads, next, err := s.Store.Due(ctx, q)
			if err != nil {
				q.After = ""
				heads, next, err = s.Store.Due(ctx, q)
			}
			return heads, next, err
		}
	}},

	{"Due shows lost runs as failures", "results", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			heads, next, err := s.Store.Due(ctx, anyState(q))
			return slices.DeleteFunc(heads, func(h stet.Head) bool { return !byStatus(&q, &h) }), next, err
		}
	}},
	{"List shows lost runs as failures", "results", func(s *broken) {
		s.list = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			heads, next, err := s.Store.List(ctx, anyState(q))
			return slices.DeleteFunc(heads, func(h stet.Head) bool { return !byStatus(&q, &h) }), next, err
		}
	}},
	{"Count counts lost runs as failures", "results", func(s *broken) {
		s.count = func(ctx context.Context, q stet.Query) (n int, err error) {
			heads, _, err := s.Store.List(ctx, anyState(q))
			for i := range heads {
				if byStatus(&q, &heads[i]) {
					n++
				}
			}
			return n, err
		}
	}},
	{"a notice is forgotten", "every field", func(s *broken) { s.spoilHeads(forgetNotice) }},
	{"a notice is not in the history", "history", func(s *broken) { s.changes(func(c *stet.Change) { c.Note.Notice = "" }) }},
}

// dues changes what Due answers.
func dues(how func(s *broken, heads []stet.Head, next string, err error) ([]stet.Head, string, error)) func(s *broken) {
	return func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			heads, next, err := s.Store.Due(ctx, q)
			return how(s, heads, next, err)
		}
	}
}

// byInstant has a cursor without a tie-break.
func byInstant(beyond func(due, last int64) bool) func(s *broken) {
	return func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			all, _, err := s.Store.Due(ctx, stet.Query{Limit: stet.MaxLimit})
			if last, bad := strconv.ParseInt(q.After, 10, 64); bad == nil {
				all = slices.DeleteFunc(all, func(h stet.Head) bool { return !beyond(h.DueAt.UnixMicro(), last) })
			}
			n := q.Bound()
			if len(all) <= n {
				return all, "", err
			}
			return all[:n], strconv.FormatInt(all[n-1].DueAt.UnixMicro(), 10), err
		}
	}
}

func anyState(q stet.Query) stet.Query {
	q.Failed, q.Succeeded = false, false
	return q
}

// byStatus selects by the status of whatever has one.
func byStatus(q *stet.Query, h *stet.Head) bool {
	return (!q.Failed || h.Status >= 500) && (!q.Succeeded || h.Status < 500)
}

func forgetNotice(h *stet.Head) {
	if h.Note != nil {
		n := *h.Note
		n.Notice, h.Note = "", &n
	}
}

// damaged returns models whose Due is how's.
func damaged(how func(m *model, q stet.Query) ([]stet.Head, string, error)) Backend {
	return modelBackend(func(m *model) stet.Store { return &walks{m, how} })
}

// walks is a model with a Due of its own.
type walks struct {
	*model
	how func(m *model, q stet.Query) ([]stet.Head, string, error)
}

func (w walks) Due(_ context.Context, q stet.Query) ([]stet.Head, string, error) {
	return w.how(w.model, q)
}

// beforeDamage cuts a page where the first record of another format stands.
func beforeDamage(m *model, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := m.Due(context.Background(), q)
	d := m.seen()
	for id := range d.foreign {
		r := d.records[id]
		for i := range heads {
			if place(&heads[i]) > place(&r.Head) && place(&r.Head) > q.After {
				return heads[:i], "", err
			}
		}
	}
	return heads, next, err
}

func failOverDamage(m *model, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := m.Due(context.Background(), q)
	if len(m.seen().foreign) > 0 {
		err = errors.Join(err, stet.ErrCorrupt)
	}
	return heads, next, err
}
