package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
)

// storeBreak is what is wrong with a store, and the law that it breaks.
type storeBreak struct {
	what, law string
	how       func(s *broken)
}

var breaks = []storeBreak{
	{"all lives begin in one instant", "fences grow", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := s.Store.Create(ctx, r)
			got.CreatedAt = time.UnixMicro(1)
			return got, err
		}
	}},
	{"racers may all create", "create once", func(s *broken) {
		together := pair()
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) { // looks, and then leaps
			if got, err := s.Store.Get(ctx, r.ID); err == nil {
				return got, stet.ErrExists
			}
			together()
			for {
				got, err := s.Store.Create(ctx, r)
				if !errors.Is(err, stet.ErrExists) {
					return got, err
				}
				_ = s.Store.Delete(ctx, got.ID, got.Version)
			}
		}
	}},
	{"Create overwrites", "create existing", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := s.Store.Create(ctx, r)
			if errors.Is(err, stet.ErrExists) {
				_ = s.Store.Delete(ctx, got.ID, got.Version)
				_, _ = s.Store.Create(ctx, r)
			}
			return got, err
		}
	}},
	{"Create does not show the body of the incumbent", "create existing", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := s.Store.Create(ctx, r)
			if errors.Is(err, stet.ErrExists) {
				got.Body = stet.Body{}
			}
			return got, err
		}
	}},
	{"what is absent is an empty record", "not found", func(s *broken) {
		s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) {
			r, err := s.Store.Get(ctx, id)
			if errors.Is(err, stet.ErrNotFound) {
				err = nil
			}
			return r, err
		}
	}},
	{"Replace creates what is absent", "not found", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			got, err := s.Store.Replace(ctx, prev, h, b)
			if errors.Is(err, stet.ErrNotFound) {
				made, err := s.Store.Create(ctx, stet.Record{Head: h})
				return made.Head, err
			}
			return got, err
		}
	}},
	{"a stale writer is accepted", "compare and set", acceptStale},
	{"a stale writer is not told what is there", "compare and set", showNothing},
	{"the version is used again", "compare and set", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			h.Version = prev
			return s.Store.Replace(ctx, prev, h, b)
		}
	}},
	{"several of those who expect the same replace", "one replacer", acceptStale},
	{"of two updates one is lost", "no lost update", loseOne},
	{"Delete does not look at the version", "delete", func(s *broken) {
		s.remove = func(ctx context.Context, id stet.ID, prev stet.Version) error {
			r, err := s.Store.Get(ctx, id)
			return cmp.Or(err, s.Store.Delete(ctx, id, r.Version))
		}
	}},
	{"scope and key are one string", "boundaries", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			r.ID = stet.ID{Key: stet.Key(string(r.Scope) + ":" + string(r.Key))}
			return s.Store.Create(ctx, r)
		}
	}},
	{"keys in upper case are the same", "boundaries", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			r.Key = stet.Key(strings.ToLower(string(r.Key)))
			return s.Store.Create(ctx, r)
		}
	}},
	{"what was refused for its context has happened", "ended contexts", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := s.Store.Create(context.WithoutCancel(ctx), r)
			return got, cmp.Or(ctx.Err(), err)
		}
	}},
	{"deadlines are ignored", "ended contexts", func(s *broken) {
		never := make(chan struct{})
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			if ctx.Err() != nil {
				<-never
			}
			return s.Store.Due(ctx, q)
		}
	}},
	{"what is given up on is written by half", "abandoned calls", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			if _, hurried := ctx.Deadline(); hurried {
				r.Progress = nil
			}
			return s.Store.Create(context.WithoutCancel(ctx), r)
		}
	}},

	{"a writer's clock counts", "stamps", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := s.Store.Create(ctx, r)
			if err == nil && !r.CreatedAt.IsZero() {
				got.CreatedAt = r.CreatedAt
			}
			return got, err
		}
	}},
	{"nanoseconds", "stamps", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := s.Store.Create(ctx, r)
			got.UpdatedAt = got.UpdatedAt.Add(1)
			return got, err
		}
	}},
	{"a new life keeps the old one's beginning", "a new life", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			if was, err := s.Store.Get(ctx, h.ID); err == nil {
				h.CreatedAt = was.CreatedAt
			}
			return s.Store.Replace(ctx, prev, h, b)
		}
	}},
	{"completion is forgotten", "completion", func(s *broken) {
		s.spoilHeads(func(h *stet.Head) { h.CompletedAt = time.Time{} })
	}},
	{"time goes back with the clock", "a clock set back", func(s *broken) {
		s.spoilRecords(func(r *stet.Record) { r.AsOf = s.clock().UTC().Truncate(time.Microsecond) })
	}},
	{"Due is not sorted", "due", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			heads, next, err := s.Store.Due(ctx, q)
			slices.Reverse(heads)
			return heads, next, err
		}
	}},
	{"Due returns what is not due yet", "due", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			return s.Store.List(ctx, q)
		}
	}},
	{"Due ignores its bounds", "due bounds", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			return s.Store.Due(ctx, stet.Query{States: q.States})
		}
	}},
	{"Due ignores states", "due bounds", func(s *broken) {
		s.due = func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
			q.States = nil
			return s.Store.Due(ctx, q)
		}
	}},
	{"Never is at once", "never due", func(s *broken) {
		s.spoilHeads(func(h *stet.Head) { h.DueIn = max(0, h.DueIn) })
	}},

	{"a field is forgotten", "every field", func(s *broken) { s.spoilHeads(func(h *stet.Head) { h.TraceID = "" }) }},
	{"a number is cut", "every field", func(s *broken) { s.spoilHeads(func(h *stet.Head) { h.Size = int64(int32(h.Size)) }) }},
	{"bytes are altered", "exact bytes", func(s *broken) {
		s.spoilRecords(func(r *stet.Record) { r.Response.Body = bytes.ToValidUTF8(r.Response.Body, nil) })
	}},
	{"header values are trimmed", "exact bytes", func(s *broken) {
		s.spoilRecords(func(r *stet.Record) { r.Response.Header[0].Value = strings.Trim(r.Response.Header[0].Value, "\x00") })
	}},
	{"what is big is cut", "big values", func(s *broken) {
		s.spoilRecords(func(r *stet.Record) { r.Request = r.Request[:min(len(r.Request), 65535)] })
	}},
	{"an empty response is none", "nil and empty", func(s *broken) {
		s.spoilRecords(func(r *stet.Record) {
			if r.Response != nil && len(r.Response.Body) == 0 {
				r.Response = nil
			}
		})
	}},
	{"a nil Body erases", "a nil Body", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			return s.Store.Replace(ctx, prev, h, cmp.Or(b, &stet.Body{}))
		}
	}},
	{"an empty Body keeps", "a nil Body", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			if b != nil && b.Response == nil && b.Progress == nil && b.Request == nil {
				b = nil
			}
			return s.Store.Replace(ctx, prev, h, b)
		}
	}},
	{"the caller's own bytes are kept", "nothing shared", func(s *broken) {
		given := map[stet.ID]stet.Body{}
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			given[r.ID] = r.Body
			return s.Store.Create(ctx, r)
		}
		s.spoilRecords(func(r *stet.Record) { r.Body = given[r.ID] })
	}},

	{"a stale holder is not shown its own version", "lost calls", showNothing},
	{"reservations cannot be taken back", "abandoned requests", func(s *broken) {
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			if h.State == stet.Retryable {
				return h, nil
			}
			return s.Store.Replace(ctx, prev, h, b)
		}
	}},
	{"a live record makes room for another", "many keys", func(s *broken) {
		var mu sync.Mutex
		var made []stet.ID
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			mu.Lock()
			defer mu.Unlock()
			if made = append(made, r.ID); len(made) > 500 {
				if oldest, err := s.Store.Get(ctx, made[0]); err == nil {
					_ = s.Store.Delete(ctx, oldest.ID, oldest.Version)
				}
				made = made[1:]
			}
			return s.Store.Create(ctx, r)
		}
	}},
}

func acceptStale(s *broken) {
	s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
		for {
			got, err := s.Store.Replace(ctx, prev, h, b)
			if !errors.Is(err, stet.ErrStale) {
				return got, err
			}
			prev = got.Version
		}
	}
}

// loseOne lets two read before either writes.
func loseOne(s *broken) {
	together := pair()
	s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) {
		defer together()
		return s.Store.Get(ctx, id)
	}
	acceptStale(s)
}

// pair returns a function whose first call waits for the second.
func pair() func() {
	var calls atomic.Int32
	met := make(chan struct{})
	return func() {
		switch calls.Add(1) {
		case 1:
			<-met
		case 2:
			close(met)
		}
	}
}

func showNothing(s *broken) {
	s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
		got, err := s.Store.Replace(ctx, prev, h, b)
		if errors.Is(err, stet.ErrStale) {
			got = stet.Head{}
		}
		return got, err
	}
}
