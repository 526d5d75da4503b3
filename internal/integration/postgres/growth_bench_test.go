package postgres

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet/internal/integration/interference"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
)

// BenchmarkGrowth compares new keys in a table of 5,000,000 with new keys in one of 10,000, by turns, on one server: what a request
// costs is not to grow with what is stored. It takes minutes and 5 GB of disk: STET_SOAK=1.
func BenchmarkGrowth(b *testing.B) {
	if os.Getenv("STET_SOAK") == "" {
		b.Skip("five million rows take minutes: STET_SOAK=1")
	}
	const few, many = 10_000, 5_000_000
	server := testserver.NewPostgres(b, "shared_buffers=512MB", "max_wal_size=4GB").Addr
	small, large := database(b, server, "few"), database(b, server, "many")
	fill(b, small, few)
	fill(b, large, many)
	one, other := opened(b, large, pgxstore.Config{}), opened(b, small, pgxstore.Config{})
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			inLarge, inSmall := func(ctx context.Context) error { return pair(ctx, one) }, func(ctx context.Context) error { return pair(ctx, other) }
			spin(b, callers, turn, inLarge)                    // warm
			compare(b, callers, turn, turns, inSmall, inLarge) // "ratio" is how much longer it takes where there is much
		})
	}
}

// BenchmarkBesideKeepers times requests beside a sweeper and a reaper that work off a backlog of STET_ROWS. The checkpoint gives
// back the files of the log that the backlog took: see durable.
func BenchmarkBesideKeepers(b *testing.B) {
	address := durable(b)
	interference.Beside(b, opened(b, address, pgxstore.Config{}), interference.Rows(b), func() {
		conn, err := pgx.Connect(b.Context(), strings.TrimSuffix(address, "&pool_max_conns=16"))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(b.Context(), "CHECKPOINT"); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkReap removes 1,000,000 records whose retention is over (STET_ROWS), while requests go on: they are to be gone in under ten
// seconds, and the 99th percentile of requests is to stay within twice that of a store at rest.
func BenchmarkReap(b *testing.B) {
	rows := 1_000_000
	if os.Getenv("STET_ROWS") != "" {
		rows = interference.Rows(b)
	} else if os.Getenv("STET_SOAK") == "" {
		b.Skip("a million rows take a minute: STET_SOAK=1, or fewer by STET_ROWS")
	}
	for _, when := range []struct{ name, due string }{
		{"spread", "due_at = updated_at - 3600000000 + id"}, {"one instant", "due_at = updated_at - 3600000000"},
	} {
		b.Run(when.name, func(b *testing.B) {
			for b.Loop() {
				address := durable(b)
				fill(b, address, rows, "UPDATE stet_records SET "+when.due)
				interference.Reaping(b, opened(b, address, pgxstore.Config{}), rows)
			}
		})
	}
}

// fill copies one completed record under other names. The copies' checksums are of the first: nobody reads them.
func fill(b *testing.B, address string, rows int, more ...string) {
	b.Helper()
	s := opened(b, address, pgxstore.Config{})
	if err := pair(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(b.Context(), strings.TrimSuffix(address, "&pool_max_conns=16"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	r, err := conn.Query(b.Context(), "SELECT column_name FROM information_schema.columns WHERE table_name = 'stet_records' AND column_name NOT IN ('id', 'key')")
	if err != nil {
		b.Fatal(err)
	}
	columns, err := pgx.CollectRows(r, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(columns)
	list := strings.Join(columns, ", ")
	insert := []string{
		fmt.Sprintf("INSERT INTO stet_records (key, %s) SELECT md5(g::text) || g, %s FROM stet_records, generate_series(1, %d) g", list, list, rows)}
	for _, statement := range slices.Concat(insert, more, []string{"VACUUM ANALYZE stet_records", "CHECKPOINT"}) {
		if _, err := conn.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
}
