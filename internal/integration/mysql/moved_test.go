package mysql

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/integration/badnet"
)

// An address leads to a replica for a while: the connections from then are given up when they are
// refused, and do not keep refusing once it leads to the primary again.
func TestAnAddressThatMoves(t *testing.T) { // Q04
	t.Parallel()
	primary, replica := semiSync(t)
	root := fresh(t, primary.Addr)
	plain := user(t, migrated(t, root), root, "plain", plainRights) // root may write to a replica
	on := connect(t, replica.MariaDBDSN(""))
	execute(t, on, "SET GLOBAL read_only = 1")
	p := badnet.New(t, primary.Addr)
	s := over(t, connect(t, strings.Replace(plain, primary.Addr, p.Addr(), 1)))
	create(t, s, "before")
	tried := func(key string) error {
		_, err := s.Create(within(t, time.Second), named(key))
		return err
	}
	p.Move(replica.Addr)
	p.Cut()
	eventually(t, "the replica refuses", func() bool {
		err := tried("there")
		return err != nil && strings.Contains(err.Error(), "1290")
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
