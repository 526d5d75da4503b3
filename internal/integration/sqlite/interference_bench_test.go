package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stet-dev/stet/internal/integration/interference"
	"github.com/stet-dev/stet/store/sqlstore"
)

// BenchmarkBesideKeepers: the 99th percentile of requests beside a sweeper and a reaper is to stay within twice that of a store at
// rest. STET_ROWS=1000000 is the backlog of the requirement; it takes minutes to fill.
func BenchmarkBesideKeepers(b *testing.B) {
	s := over(b, database(b, filepath.Join(b.TempDir(), "stet.db")), sqlstore.Config{})
	interference.Beside(b, s, interference.Rows(b), nil)
}
