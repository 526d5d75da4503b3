package sqltext

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"testing"

	"github.com/stet-dev/stet"
)

// scanned is a row of an answer.
type scanned func(dest ...any) error

func (s scanned) Scan(dest ...any) error { return s(dest...) }

// page is the row of r in a page.
func page(r *stet.Record) scanned {
	return func(dest ...any) error {
		for i, from := range append([]any{new(int64), new(rowID), new(sql.NullInt64)}, rowOf(r).Dest()...) {
			reflect.ValueOf(dest[i]).Elem().Set(reflect.ValueOf(from).Elem())
		}
		return nil
	}
}

func answers(rows ...scanned) *Reader {
	return &Reader{Dialect: PostgresDialect, Run: func(_ context.Context, _ string, _ []any, row func(Scanner) error) error {
		for _, s := range rows {
			if err := row(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// What the statement found by the number of its row has to have the name, too.
func TestFindComparesNames(t *testing.T) {
	sent, got, other := sample(), sample(), sample()
	sent.DownstreamKey, got.DownstreamID, other.DownstreamKey, other.DownstreamID = "name", "name", "another", "yet another"
	heads, err := answers(page(&sent), page(&other), page(&got)).Find(t.Context(), "name")
	if err != nil || len(heads) != 2 || heads[0].DownstreamKey != "name" || heads[1].DownstreamID != "name" {
		t.Errorf("found %v, %v", heads, err)
	}
}

// A row that cannot be read because its context or its transaction has ended is no damaged one.
func TestUnread(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	column := errors.New("a column of another type")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"a column":            {t.Context(), column, stet.ErrCorrupt},
		"the context ended":   {ended, errors.New("closed"), context.Canceled},
		"the transaction has": {t.Context(), context.Canceled, context.Canceled},
		"its time was over":   {t.Context(), context.DeadlineExceeded, context.DeadlineExceeded},
		"both at once":        {ended, column, context.Canceled},
	} {
		r := answers(func(...any) error { return c.err })
		_, err := r.Find(c.ctx, "name")
		_, _, err2 := r.History(c.ctx, stet.HistoryQuery{})
		for _, err := range []error{err, err2} {
			if !errors.Is(err, c.want) || c.want != stet.ErrCorrupt && errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}
