package postgres

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
)

// An address leads to a standby for a while: the connections from then are given up when they are
// refused, and do not keep refusing once it leads to the primary again.
func TestAnAddressThatMoves(t *testing.T) { // Q04
	primary := testserver.NewPostgres(t)
	standby := primary.Standby(t, "standby")
	p := badnet.New(t, primary.Addr)
	s := opened(t, dsn(p.Addr(), "postgres"), pgxstore.Config{})
	create(t, s, "before")
	p.Move(standby.Addr)
	p.Cut()
	tried := func(key string) error {
		_, err := s.Create(within(t, time.Second), running(key))
		return err
	}
	eventually(t, "the standby refuses", func() bool {
		err := tried("there")
		return err != nil && strings.Contains(err.Error(), "25006")
	})
	if refused := atOnce(40, tried); len(refused) != 40 {
		t.Errorf("%d of 40 were refused", len(refused))
	}
	p.Move(primary.Addr)
	eventually(t, "the primary is asked", func() bool { return tried("after") == nil })
	for _, err := range atOnce(40, tried) { // on each connection that there is
		t.Error(err)
	}
}

// atOnce tries as many keys, and returns the errors.
func atOnce(n int, try func(key string) error) (all []error) {
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			if err := try(fmt.Sprint("more", i)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, err)
			}
		})
	}
	running.Wait()
	return all
}
