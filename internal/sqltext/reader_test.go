package sqltext

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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
	heads, err := answers(page(&sent), page(&other), page(&got)).Find(t.Context(), "", "name")
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
		_, err := r.Find(c.ctx, "", "name")
		_, _, err2 := r.History(c.ctx, stet.HistoryQuery{})
		for _, err := range []error{err, err2} {
			if !errors.Is(err, c.want) || c.want != stet.ErrCorrupt && errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

// A count of young records by a packed field reads the latest rows, page by page, and none behind
// one that is all too old: no index serves such a field, and the table may be large.
func TestCountOfTheLatestByPath(t *testing.T) {
	sought, other := sample(), sample()
	sought.Path, other.Path = "/sought", "/other"
	type counts struct{ found, young, last int64 }
	pages := []counts{{3, 1000, 2001}, {0, 5, 1001}, {0, 0, 1}}
	for _, c := range []struct {
		limit, want int
		statements  int
	}{{10, 2, 4}, {2, 2, 2}, {1, 1, 2}} {
		rest, statements := pages, []string(nil)
		r := &Reader{Dialect: PostgresDialect}
		r.Run = func(_ context.Context, statement string, args []any, row func(Scanner) error) error {
			statements = append(statements, statement)
			if n := strings.Count(statement, "?"); n != len(args) {
				t.Errorf("%d places, %d arguments: %s", n, len(args), statement)
			}
			if strings.Contains(statement, "SUM(") {
				at := rest[0]
				rest = rest[1:]
				return row(scanned(func(dest ...any) error {
					*dest[0].(*int), *dest[1].(*int) = int(at.found), int(at.young)
					return dest[2].(*rowID).Scan(at.last)
				}))
			}
			if !strings.Contains(statement, "id >= ?") || !slices.Contains(args, any(int64(2001))) || !strings.Contains(statement, "position(") {
				t.Errorf("it reads more than the page: %s, %v", statement, args)
			}
			for _, s := range []scanned{page(&sought), page(&other), page(&sought)} {
				if err := row(s); errors.Is(err, errEnough) {
					return err
				} else if err != nil {
					t.Error(err)
				}
			}
			return nil
		}
		n, err := r.Count(t.Context(), stet.Query{NewerThan: time.Minute, Path: "/sought", Limit: c.limit})
		if err != nil || n != c.want || len(statements) != c.statements {
			t.Errorf("up to %d: counted %d in %d statements, %v; want %d in %d", c.limit, n, len(statements), err, c.want, c.statements)
		}
	}
}
