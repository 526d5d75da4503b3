package pgstore

import (
	"errors"
	"slices"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

func opened(s *server) *Store {
	return &Store{pool: s, cfg: Config{Package: "pgstore"}, patient: make(chan struct{}, maxPatient)}
}

// A statement that finds neither the record nor its absence, because it was made or changed in that instant, is no verdict: it is sent
// again (B09). ErrStale with the version that was expected would tell a holder that it was overtaken by itself.
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
		"created after a deletion":    {create, []answer{nothing, nothing, done(int64(1), int64(5000), true)}, 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &server{t: t, answers: c.answers}
			s := opened(server)
			s.creates, s.heads = &group{pool: server, calls: &s.calls}, &group{pool: server, calls: &s.calls}
			got, err := c.do(s)
			if got != c.want || !errors.Is(err, c.err) || len(server.answers) > 0 {
				t.Errorf("version %d, %v; want %d, %v; %d answers are left", got, err, c.want, c.err, len(server.answers))
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		server := &server{t: t, answers: slices.Repeat([]answer{nothing}, maxTries)}
		s := opened(server)
		s.creates = &group{pool: server, calls: &s.calls}
		if _, err := create(s); err == nil || errors.Is(err, stet.ErrExists) || !errors.Is(err, errAgain) {
			t.Errorf("after %d tries: %v", maxTries, err)
		}
	})
}

// Rows are locked in the order of their names, whoever came first, and each once: two groups that lock the same rows in other orders
// would wait for each other (B09).
func TestGroupIsInOrder(t *testing.T) {
	var batch []*op
	for _, name := range []string{"m", "c", "z", "c", "a", "m", "b", "z"} {
		h := sampled(name).Head
		h.Version = stet.Version(100 + len(batch))
		o, err := replaceOp(t.Context(), 7, &h, nil)
		if err != nil {
			t.Fatal(err)
		}
		o.done = make(chan struct{})
		batch = append(batch, o)
	}
	var keys []string
	var versions []int64
	server := &server{t: t, answers: []answer{func(args []any) [][]any {
		keys = args[1].([]string)
		versions = args[2].([]int64)
		var all [][]any
		for i := range keys {
			all = append(all, []any{int64(i + 1), int64(5000), true})
		}
		return all
	}}}
	g := &group{pool: server, write: &sqltext.PostgresReplaceHead}
	g.carry(batch)
	if want := []string{"a", "b", "c", "m", "z"}; !slices.Equal(keys, want) {
		t.Errorf("sent as %q, want %q", keys, want)
	}
	for i, o := range batch {
		sent := slices.Contains(versions, int64(o.head.Version))
		switch {
		case sent && (o.err != nil || o.got.Version != o.head.Version):
			t.Errorf("op %d was sent and is answered with %v", i, o.err)
		case !sent && !errors.Is(o.err, errAlone):
			t.Errorf("op %d was not sent and is answered with %v", i, o.err)
		case sent != (i != 3 && i != 5 && i != 7):
			t.Errorf("op %d: of several with one name the first is sent", i)
		}
	}
}
