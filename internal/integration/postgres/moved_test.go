package postgres

import (
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
)

// An address leads to a standby for a while.
func TestAnAddressThatMoves(t *testing.T) { // Q04
	primary := testserver.NewPostgres(t)
	standby := primary.Standby(t, "standby")
	p := badnet.New(t, primary.Addr)
	s := opened(t, dsn(p.Addr(), "postgres"), pgxstore.Config{})
	create(t, s, "before")
	p.Elsewhere(t, standby.Addr, "25006", func(key string) error {
		_, err := s.Create(within(t, 30*time.Second), running(key))
		return err
	})
}
