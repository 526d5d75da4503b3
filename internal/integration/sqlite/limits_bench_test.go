package sqlite

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/interference"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
)

// BenchmarkLimits compares requests under max_keys and new_keys_per_second with requests without limits, by turns in one run, on a
// table of STET_ROWS keys. The figures are the medians of the ratios of neighbouring turns.
func BenchmarkLimits(b *testing.B) { // E02
	rows := interference.Rows(b)
	db := database(b, filepath.Join(b.TempDir(), "stet.db"))
	s, err := sqlstore.Open(b.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(strings.Repeat("0123456789", 20)))
	})
	guarded := func(c stethttp.LimitsConfig) http.Handler {
		return stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{Limits: stethttp.NewLimits(c)})(handler)
	}
	post := func(h http.Handler, key string) time.Duration {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/charges", http.NoBody)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		began := time.Now()
		h.ServeHTTP(w, r)
		took := time.Since(began)
		if w.Code != http.StatusCreated {
			b.Fatalf("%d: %s", w.Code, w.Body)
		}
		return took
	}
	free := guarded(stethttp.LimitsConfig{})
	bound := guarded(stethttp.LimitsConfig{NewKeysPerSecond: 1e6, MaxKeysPerScope: 10 * rows, MaxKeys: 10 * rows})
	post(free, "known")
	var columns string
	if err := db.QueryRowContext(b.Context(), "SELECT group_concat(name, ', ') FROM pragma_table_info('stet_records') WHERE name NOT IN ('id', 'scope', 'key')").
		Scan(&columns); err != nil {
		b.Fatal(err)
	}
	if _, err := db.ExecContext(b.Context(), "INSERT INTO stet_records (scope, key, "+columns+") WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"+
		" SELECT scope, 'row-' || i, "+columns+" FROM stet_records, n WHERE key = 'known'", rows); err != nil {
		b.Fatal(err)
	}
	post(bound, "first") // which counts
	n := 0
	turn := func(h http.Handler, replay bool) (sum time.Duration) {
		for range 50 {
			if n++; replay {
				sum += post(h, "known")
			} else {
				sum += post(h, fmt.Sprintf("8e03978e-40d5-43e8-%017d", n))
			}
		}
		return sum
	}
	ratios := map[bool][]float64{}
	for b.Loop() {
		for i := range 100 {
			for _, replay := range []bool{true, false} {
				first, second := free, bound
				if i%2 == 1 {
					first, second = bound, free
				}
				x, y := turn(first, replay), turn(second, replay)
				if i%2 == 1 {
					x, y = y, x
				}
				ratios[replay] = append(ratios[replay], float64(y)/float64(x))
			}
		}
	}
	for replay, name := range map[bool]string{true: "replay", false: "new-key"} {
		slices.Sort(ratios[replay])
		b.ReportMetric(ratios[replay][len(ratios[replay])/2], name+"-ratio")
	}
	b.ReportMetric(0, "ns/op")
}
