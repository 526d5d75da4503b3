package mysql

import (
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/integration/badnet"
)

// An address leads to a replica for a while.
func TestAnAddressThatMoves(t *testing.T) { // Q04
	t.Parallel()
	primary, replica := semiSync(t)
	root := fresh(t, primary.Addr)
	plain := user(t, migrated(t, root), root, "plain", plainRights) // root may write to a replica
	execute(t, connect(t, replica.MariaDBDSN("")), "SET GLOBAL read_only = 1")
	p := badnet.New(t, primary.Addr)
	s := over(t, connect(t, strings.Replace(plain, primary.Addr, p.Addr(), 1)))
	create(t, s, "before")
	p.Elsewhere(t, replica.Addr, "1290", func(key string) error {
		_, err := s.Create(within(t, 30*time.Second), named(key))
		return err
	})
}
