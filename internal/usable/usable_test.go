package usable_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/memstore"
)

var errForbidden = errors.New("forbidden")

// refusing refuses one verb.
type refusing struct {
	*memstore.Store
	verb string
}

func (r *refusing) refuse(verb string) error {
	if r.verb == verb {
		return errForbidden
	}
	return nil
}

func (r *refusing) Create(ctx context.Context, rec stet.Record) (stet.Record, error) {
	if err := r.refuse("create"); err != nil {
		return stet.Record{}, err
	}
	return r.Store.Create(ctx, rec)
}

func (r *refusing) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	verb := "replace"
	if h.Note != nil {
		verb = "note"
	}
	if err := r.refuse(verb); err != nil {
		return stet.Head{}, err
	}
	return r.Store.Replace(ctx, prev, h, b)
}

func (r *refusing) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if err := r.refuse("get"); err != nil {
		return stet.Record{}, err
	}
	return r.Store.Get(ctx, id)
}

func (r *refusing) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	if err := r.refuse("list"); err != nil {
		return nil, "", err
	}
	return r.Store.List(ctx, q)
}

func (r *refusing) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	if err := r.refuse("delete"); err != nil {
		return err
	}
	return r.Store.Delete(ctx, id, prev)
}

func TestProveTriesEachVerb(t *testing.T) { // S08, S22
	for verb, says := range map[string]string{"create": "make a record", "replace": "change a record", "note": "change a record",
		"list": "list a record", "get": "read a record", "delete": "delete a record"} {
		for _, noted := range []bool{false, true} {
			s := &refusing{memstore.New(memstore.Config{}), verb}
			err := usable.Prove(t.Context(), s, noted)
			tried := noted && verb != "replace" || !noted && verb != "note" && verb != "list"
			if errors.Is(err, errForbidden) != tried || tried && !strings.Contains(err.Error(), says) {
				t.Errorf("%s is forbidden, noted %v: %v", verb, noted, err)
			}
		}
	}
}

func TestProveLeavesNothing(t *testing.T) {
	s := memstore.New(memstore.Config{})
	if err := usable.Prove(t.Context(), s, true); err != nil {
		t.Fatal(err)
	}
	if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 0 {
		t.Errorf("it leaves %+v, %v", heads, err)
	}
	if changes, _, err := s.History(t.Context(), stet.HistoryQuery{}); err != nil || len(changes) != 1 || changes[0].Note.Action != "proof" {
		t.Errorf("the history is %+v, %v", changes, err)
	}
}

// What a proof leaves that was cut short is over soon, and no run.
func TestAProofThatWasCutShort(t *testing.T) {
	now := time.Now()
	s := &refusing{memstore.New(memstore.Config{Clock: func() time.Time { return now }}), "delete"}
	if err := usable.Prove(t.Context(), s, true); !errors.Is(err, errForbidden) {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if n, err := s.Reap(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("%d were reaped, %v", n, err)
	}
}

// stuck answers nothing after a record was made, until the caller gives up.
type stuck struct{ *memstore.Store }

func (s *stuck) Replace(ctx context.Context, _ stet.Version, _ stet.Head, _ *stet.Body) (stet.Head, error) {
	<-ctx.Done()
	return stet.Head{}, ctx.Err()
}

func (s *stuck) Delete(ctx context.Context, _ stet.ID, _ stet.Version) error {
	<-ctx.Done()
	return ctx.Err()
}

// A store that hangs does not hold a proof, and with it the end of a gateway, longer than its time.
func TestAProofEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := usable.Prove(ctx, &stuck{memstore.New(memstore.Config{})}, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the proof said %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
