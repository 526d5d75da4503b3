package pgstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/tablestore"
)

func opened(s *server) *Store {
	return newStore(s, Config{Package: "pgstore"})
}

// A statement that finds neither the record nor its absence, because it was made or changed in that
// instant, is no verdict: it is sent again (B09). ErrStale with the version that was expected would
// tell a holder that it was overtaken by itself.
func TestNoVerdictWithoutProof(t *testing.T) {
	done := func(row ...any) answer { return func([]any) [][]any { return [][]any{row} } }
	next := sampled("k").Head
	next.Version = 8
	replace := func(s *Store) (stet.Version, error) {
		h, err := s.Replace(t.Context(), 7, next, nil)
		return h.Version, err
	}
	create := func(s *Store) (stet.Version, error) {
		r, err := s.Create(t.Context(), sampled("k"))
		return r.Version, err
	}
	other := sampled("k")
	other.Version = 9
	for name, c := range map[string]struct {
		do      func(*Store) (stet.Version, error)
		answers []answer
		want    stet.Version
		err     error
	}{
		"replaced after it was made":  {replace, []answer{nothing, shown(t, sampled("k")), done(int64(5000))}, 8, nil},
		"overtaken after it was made": {replace, []answer{nothing, shown(t, sampled("k")), nothing, shown(t, other)}, 9, stet.ErrStale},
		"deleted after it was made":   {replace, []answer{nothing, shown(t, sampled("k")), nothing, nothing}, 0, stet.ErrNotFound},
		"created after a deletion":    {create, []answer{nothing, nothing, done(int64(5000), true)}, 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &server{t: t, answers: c.answers}
			s := opened(server)
			got, err := c.do(s)
			if got != c.want || !errors.Is(err, c.err) || len(server.answers) > 0 {
				t.Errorf("version %d, %v; want %d, %v; %d answers are left", got, err, c.want, c.err, len(server.answers))
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		server := &server{t: t, answers: slices.Repeat([]answer{nothing}, maxTries)}
		s := opened(server)
		if _, err := create(s); err == nil || errors.Is(err, stet.ErrExists) || !errors.Is(err, errAgain) {
			t.Errorf("after %d tries: %v", maxTries, err)
		}
	})
}

// What a group of Creates says of its members: which were made, which are there, and which are to
// be tried separately. A statement that may have happened is followed by no other.
func TestGroupOfCreates(t *testing.T) {
	made := func(keys ...string) answer {
		return func([]any) (all [][]any) {
			for _, key := range keys {
				all = append(all, []any{"tenant", key, int64(5000)})
			}
			return all
		}
	}
	there := func(key string) answer { return looked(t, sampled(key)) }
	separate := groupcommit.ErrUnknown // and no error of the group: the queue carries it out again
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		answers []answer
		want    map[string]error
		err     error // of the whole group
		looks   []string
		held    bool
	}{
		"all are new":             {[]answer{made("a", "b", "c")}, map[string]error{"a": nil, "b": nil, "c": nil}, nil, nil, false},
		"in another order":        {[]answer{made("c", "a", "b")}, map[string]error{"a": nil, "b": nil, "c": nil}, nil, nil, false},
		"one is there":            {[]answer{made("a", "c"), there("b")}, map[string]error{"a": nil, "b": stet.ErrExists, "c": nil}, nil, []string{"b"}, false},
		"deleted before the look": {[]answer{made("a", "c"), nothing}, map[string]error{"a": nil, "b": separate, "c": nil}, nil, []string{"b"}, false},
		"the look fails":          {[]answer{made("a", "c"), fails(broken)}, map[string]error{"a": nil, "b": separate, "c": nil}, nil, []string{"b"}, false},
		"a row is held": {[]answer{fails(code(codeLockWait)), there("b")},
			map[string]error{"a": separate, "b": stet.ErrExists, "c": separate}, nil, []string{"a", "b", "c"}, true},
		"a row is held, and the look fails": {[]answer{fails(code(codeLockWait)), fails(broken)},
			map[string]error{"a": separate, "b": separate, "c": separate}, nil, []string{"a", "b", "c"}, false},
		"out of time":        {[]answer{fails(code(codeCanceled))}, map[string]error{"a": separate, "b": separate, "c": separate}, code(codeCanceled), nil, false},
		"the answer is lost": {[]answer{fails(broken)}, map[string]error{"a": separate, "b": separate, "c": separate}, broken, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var looks []string
			for i := 1; i < len(c.answers); i++ {
				then := c.answers[i]
				c.answers[i] = func(args []any) [][]any { looks = args[1].([]string); return then(args) }
			}
			server := &server{t: t, answers: c.answers}
			s := opened(server)
			var batch []*op
			for _, key := range []string{"a", "b", "c"} {
				r := sampled(key)
				o, err := creation(t.Context(), &r)
				if err != nil {
					t.Fatal(err)
				}
				o.Err = groupcommit.ErrUnknown
				batch = append(batch, o)
			}
			err := s.many(t.Context(), batch)
			if (err == nil) != (c.err == nil) {
				t.Errorf("the group: %v, want %v", err, c.err)
			}
			if wantFinal := errors.Is(c.err, broken); err != nil && (settles(err) == groupcommit.Final) != wantFinal {
				t.Errorf("%v may have happened: want %v", err, wantFinal)
			}
			for _, o := range batch {
				if want := c.want[string(o.Head.Key)]; !errors.Is(o.Err, want) || want == nil && o.Err != nil {
					t.Errorf("%s: %v, want %v", o.Head.Key, o.Err, want)
				}
			}
			if !slices.Equal(looks, c.looks) || len(server.answers) > 0 {
				t.Errorf("looked for %q, want %q; %d answers are left", looks, c.looks, len(server.answers))
			}
			if held := s.suspects.Has(sampled("b").ID); held != c.held || s.suspects.Has(sampled("a").ID) || s.held.Has(sampled("b").ID) {
				t.Errorf("kept out of groups: %v, want %v", held, c.held)
			}
		})
	}
}

// A context that ends while the answer to a write is read leaves open whether the write happened:
// that is no damaged record, and nothing is sent again.
func TestContextEndsWithinAnAnswer(t *testing.T) {
	create := func(ctx context.Context, s *Store) error {
		_, err := s.Create(ctx, sampled("a"))
		return err
	}
	for name, c := range map[string]struct {
		before []any // the columns that were read by then
		do     func(ctx context.Context, s *Store) error
	}{
		"one":               {[]any{int64(2000)}, create},
		"one that is there": {[]any{int64(2000), false}, create},
		"a look": {[]any{int64(2000)}, func(ctx context.Context, s *Store) error {
			_, err := s.Get(ctx, sampled("a").ID)
			return err
		}},
		"many": {[]any{"tenant"}, func(ctx context.Context, s *Store) error {
			var batch []*op
			for _, key := range []string{"a", "b"} {
				r := sampled(key)
				o, err := creation(ctx, &r)
				if err != nil {
					return err
				}
				batch = append(batch, o)
			}
			err := s.many(ctx, batch)
			if settles(err) != groupcommit.Final {
				t.Errorf("%v: it would be sent again", err)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := &server{t: t, answers: []answer{func([]any) [][]any {
				cancel()
				return [][]any{append(c.before, context.Canceled)}
			}}}
			s := opened(server)
			err := c.do(ctx, s)
			if !errors.Is(err, context.Canceled) || errors.Is(err, stet.ErrCorrupt) || errors.Is(err, groupcommit.ErrNothing) || len(server.asked) != 1 {
				t.Errorf("got %v, after %d statements", err, len(server.asked))
			}
		})
	}
}

// Rows are locked in the order of their names, not of arrival, and each once: two groups that lock
// the same rows in other orders would wait for each other (B09).
func TestGroupIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		alone := func([]any) [][]any { <-hold; return [][]any{{int64(5000)}} }
		var keys []string
		var versions []int64
		group := func(args []any) [][]any {
			keys = args[1].([]string)
			versions = args[3].([]int64)
			var all [][]any
			for _, key := range keys {
				all = append(all, []any{"tenant", key, int64(5000)})
			}
			return all
		}
		server := &server{t: t, answers: []answer{alone, alone, group, alone, alone, alone}}
		s := opened(server)
		var ops []*op
		var wg sync.WaitGroup
		for _, name := range []string{"1", "2", "m", "c", "z", "c", "a", "m", "b", "z"} { // the first two find a place
			h := sampled(name).Head
			h.Version = stet.Version(100 + len(ops))
			o := newOp()
			o.Ctx, o.Verb, o.Head, o.Prev = t.Context(), tablestore.ReplaceHead, h, 7
			if err := o.pack(); err != nil {
				t.Fatal(err)
			}
			ops = append(ops, o)
			wg.Go(func() {
				if err := s.carry(o); err != nil || o.Got.Version != o.Head.Version {
					t.Errorf("%s is answered with version %d, %v", name, o.Got.Version, err)
				}
			})
			synctest.Wait()
		}
		close(hold)
		wg.Wait()
		if want := []string{"a", "b", "c", "m", "z"}; !slices.Equal(keys, want) {
			t.Errorf("sent as %q, want %q", keys, want)
		}
		for i, o := range ops {
			if sent := slices.Contains(versions, int64(o.Head.Version)); sent != slices.Contains([]int{2, 3, 4, 6, 8}, i) {
				t.Errorf("op %d: of several with one name the first is sent", i)
			}
		}
		if len(server.answers) > 0 {
			t.Errorf("%d answers are left: the others go alone", len(server.answers))
		}
	})
}

// An answer to a group that cannot be read says nothing of whether the group happened: it is the
// answer to each write, and none is sent again.
func TestUnreadableAnswerIsFinal(t *testing.T) {
	server := &server{t: t, answers: []answer{func([]any) [][]any {
		return [][]any{{"tenant", errors.New("a column of another type")}}
	}}}
	s := opened(server)
	var batch []*op
	for _, key := range []string{"a", "b"} {
		r := sampled(key)
		o, err := creation(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, o)
	}
	err := s.many(t.Context(), batch)
	if !errors.Is(err, stet.ErrCorrupt) || settles(err) != groupcommit.Final || len(server.asked) != 1 {
		t.Errorf("got %v, after %d statements", err, len(server.asked))
	}
}
