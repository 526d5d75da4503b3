package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// BenchmarkAMillionKeys measures what people wait for beside a million keys: one record by its id
// (D04), one page of a list by what no index has, and one by a scope of few.
func BenchmarkAMillionKeys(b *testing.B) {
	const keys, batch = 1_000_000, 100_000
	path := filepath.Join(b.TempDir(), "stet.db")
	db := database(b, path)
	s := over(b, db, sqlstore.Config{})
	engine, err := stet.New(s, stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	var ids []stet.ID
	for range keys / batch { // some that are whole among many that only take their places
		d, err := engine.Begin(b.Context(), stet.Request{ID: stet.ID{Scope: "few", Key: sample().Key}})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, d.Record.ID)
		crowd(b, db, d.Record.ID, batch-1)
	}
	l, _ := stet.As[stet.Lister](s)
	b.Run("id", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			id := ids[i%len(ids)]
			if h, err := engine.Operator().ByTag(b.Context(), engine.Tag(id)); err != nil || h.ID != id {
				b.Fatal(h.ID, err)
			}
		}
	})
	for name, q := range map[string]stet.Query{"page by path": {Path: "/nowhere"}, "page by scope": {Scope: "few"}, "page of a large scope": {Scope: "tenant-1"},
		"page of all": {}, "oldest by path": {Path: "/nowhere", Oldest: true}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := l.List(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// crowd makes so many rows after the example of id's: each takes its place in every index, and
// cannot be read.
func crowd(tb testing.TB, db *sql.DB, id stet.ID, rows int) {
	tb.Helper()
	_, err := db.ExecContext(tb.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO stet_records (scope, key, tag, version, schema, state, status, flags, route, cause, downstream_key, downstream_id,
			due_at, updated_at, created_at, completed_at, head, body)
		SELECT 'tenant-1', hex(randomblob(16)), random(), version, schema, 'completed', 201, flags, route, cause, downstream_key, downstream_id,
			due_at, updated_at, created_at, created_at, head, zeroblob(280)
		FROM n, stet_records WHERE scope = ? AND key = ?`, rows, string(id.Scope), string(id.Key))
	if err != nil {
		tb.Fatal(err)
	}
}
