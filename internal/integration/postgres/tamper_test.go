package postgres

import (
	"context"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/storetest"
)

// tamper is [storetest.Backend].Tamper: exec sends a statement whose last two arguments are the
// record's name.
func tamper(t testing.TB, s stet.Store, exec func(sql string, args ...any) error, id stet.ID, with storetest.Tampering) {
	t.Helper()
	update := func(set string, args ...any) {
		t.Helper()
		args = append(args, sqltext.PostgresEncoder.ID(nil, id)...)
		if err := exec("UPDATE stet_records SET "+set, args...); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case with.Format:
		update("schema = schema + 1 WHERE scope = $1 AND key = $2")
	case with.Version != 0:
		r, err := s.Get(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		r.Version = with.Version
		update("version = $1, head = $2 WHERE scope = $3 AND key = $4", int64(r.Version), sqltext.PackHead(&r.Head))
	default:
		update(`due_at = due_at + $1::bigint, updated_at = updated_at + $1::bigint, created_at = created_at + $1::bigint,
			completed_at = completed_at + $1::bigint WHERE scope = $2 AND key = $3`, with.Ahead.Microseconds())
	}
}
