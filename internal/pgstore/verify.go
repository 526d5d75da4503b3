package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// maxFound is how many damages [Store.Verify] names.
const maxFound = 100

// classDamage are the codes of errors by which a server says that what it has is damaged.
const classDamage = "XX"

// Verify reads all records, and looks whether each is found by its name; it counts what the other
// indexes have, and has the extension amcheck look at them where the role may use it. It returns a
// sentence for each damage, up to a hundred, and one if the server keeps no checksums, without
// which some damage cannot be seen. It holds up no write, takes as long as reading the table, and
// keeps rows from being vacuumed for as long.
func (s *Store) Verify(ctx context.Context) (found []string, err error) {
	v := verification{}
	err = s.during(ctx, "verify", func(ctx context.Context) error {
		err := s.cfg.Begin(ctx, func(q Querier) error { return v.verify(ctx, q) })
		if e, ok := errors.AsType[*serverError](err); ok && strings.HasPrefix(e.code, classDamage) {
			v.add("%v; what comes after it was not looked at", e)
			return nil
		}
		return err
	})
	return v.found, err
}

type verification struct{ found []string }

func (v *verification) add(format string, args ...any) {
	if len(v.found) < maxFound {
		v.found = append(v.found, fmt.Sprintf(format, args...))
	}
}

// verify looks in one transaction, so that all of it is of one moment.
func (v *verification) verify(ctx context.Context, q Querier) error {
	var checksums string
	if err := each(ctx, q, "SHOW data_checksums", nil, func(rows Rows) error { return rows.Scan(&checksums) }); err != nil {
		return err
	}
	if checksums != "on" {
		v.add("the server has no checksums in its pages (data_checksums is %s): a row that its disk changed into a deleted one is not noticed; "+
			"stop the server, and run pg_checksums --enable", checksums)
	}
	if err := run(ctx, q, sqltext.PostgresByRows); err != nil {
		return err
	}
	rows, err := counts(ctx, q, "rows")
	if err == nil {
		err = run(ctx, q, sqltext.PostgresAll)
	}
	if err == nil {
		err = run(ctx, q, sqltext.PostgresByIndex)
	}
	if err != nil {
		return err
	}
	lost := int64(0)
	for {
		scopes, keys, err := v.next(ctx, q)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		n, err := hidden(ctx, q, scopes, keys)
		if err != nil {
			return err
		}
		lost += n
	}
	if lost > 0 {
		v.add("%d records are not found by scope and key, so that their keys are new: %s", lost, aboutHidden)
	}
	entries, err := counts(ctx, q, "indexes")
	if err != nil {
		return err
	}
	for i, c := range sqltext.PostgresCounted {
		if entries[i] != rows[i] {
			v.add("the index %s leads to %d rows of %d; REINDEX INDEX CONCURRENTLY %s mends it", c.Index, entries[i], rows[i], c.Index)
		}
	}
	return amcheck(ctx, q)
}

// next reads some records, and returns their names.
func (v *verification) next(ctx context.Context, q Querier) (scopes, keys []string, err error) {
	err = each(ctx, q, sqltext.PostgresNext, nil, func(rows Rows) error {
		var scope, key string
		row, now := sqltext.PostgresDialect.Row(), int64(0)
		err := scan(ctx, rows, append([]any{&scope, &key, &now}, row.DestBody()...)...)
		if err == nil {
			scopes, keys = append(scopes, scope), append(keys, key)
			_, err = row.Record(now)
		}
		if errors.Is(err, stet.ErrCorrupt) {
			v.add("%s: %v", row.Tag(), err)
			return nil
		}
		return err
	})
	return scopes, keys, err
}

const aboutHidden = "the index stet_records_pkey does not lead to a row that is there; stop what writes, and run " +
	"REINDEX INDEX stet_records_pkey, which names a key that was made twice by now"

// errHidden says that the index by names does not lead to a row that is there.
var errHidden = fmt.Errorf("%w: %s", stet.ErrCorrupt, aboutHidden)

// hidden counts the names that the index does not know.
func hidden(ctx context.Context, q Querier, scopes, keys []string) (n int64, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	err = each(ctx, q, sqltext.PostgresHidden, []any{scopes, keys}, func(rows Rows) error { return rows.Scan(&n) })
	return n, err
}

func counts(ctx context.Context, q Querier, walk string) (all []int64, err error) {
	for _, c := range sqltext.PostgresCounted {
		var n int64
		if err := each(ctx, q, sqltext.PostgresCount(c.Where, walk), nil, func(rows Rows) error { return rows.Scan(&n) }); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func amcheck(ctx context.Context, q Querier) error {
	schema := ""
	err := each(ctx, q, sqltext.PostgresAmcheck, nil, func(rows Rows) error { return rows.Scan(&schema) })
	if err != nil || schema == "" {
		return err
	}
	return run(ctx, q, sqltext.PostgresIndexes(schema))
}

func run(ctx context.Context, q Querier, sql string) error {
	return each(ctx, q, sql, nil, func(Rows) error { return nil })
}

// comparedPages is how many pages of rows each Reap compares with the index by names.
const comparedPages = 16

// compare looks at some pages with each call, until it has seen all and begins again: whether the
// index by names leads to their rows. An index that does not is damaged (S06).
func (s *Store) compare(ctx context.Context) error {
	return s.cfg.Begin(ctx, func(q Querier) error {
		if err := run(ctx, q, sqltext.PostgresByIndex); err != nil {
			return err
		}
		var pages int64
		if err := each(ctx, q, sqltext.PostgresPages, nil, func(rows Rows) error { return rows.Scan(&pages) }); err != nil {
			return err
		}
		if pages == 0 {
			return nil
		}
		from := s.compared.Load()
		if from >= pages {
			from = 0
		}
		var scopes, keys []string
		place := func(page int64) string { return fmt.Sprintf("(%d,0)", page) }
		err := each(ctx, q, sqltext.PostgresSome, []any{place(from), place(from + comparedPages)}, func(rows Rows) error {
			scopes, keys = append(scopes, ""), append(keys, "")
			return rows.Scan(&scopes[len(scopes)-1], &keys[len(keys)-1])
		})
		if err != nil {
			return err
		}
		n, err := hidden(ctx, q, scopes, keys)
		if err == nil {
			s.compared.Store(from + comparedPages)
			if n > 0 {
				err = errHidden
			}
		}
		return err
	})
}
