package redis

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// An address moves to the new master, and the old one lives on as its replica: the connections that
// are open lead to that, and are given up.
func TestAnAddressThatMoves(t *testing.T) { // Q04
	for _, a := range adapters {
		for _, wait := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d confirm", a.name, wait), func(t *testing.T) {
				master, replica := testserver.NewRedisPair(t)
				p := badnet.New(t, master.Addr)
				s := open(t, a.single(t, p.Addr()), redisstore.Config{Prefix: prefix(t.TempDir()), Shards: shards, Wait: wait, WaitTimeout: patience})
				before := sample("before")
				if _, err := s.Create(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				replica.CatchUp(t, master)
				replica.Promote(t)
				p.Move(replica.Addr)
				master.Follow(t, replica)
				eventually(t, "a key is granted", func() bool {
					_, err := s.Create(within(t, 30*time.Second), sample("after"))
					return err == nil
				})
				if _, err := s.Create(t.Context(), sample("before")); !errors.Is(err, stet.ErrExists) {
					t.Errorf("a key of before: %v", err)
				}
				var many sync.WaitGroup
				for i := range 40 { // on each connection that there is
					many.Go(func() {
						if _, err := s.Create(t.Context(), sample(fmt.Sprint("more", i))); err != nil {
							t.Error(err)
						}
					})
				}
				many.Wait()
			})
		}
	}
}
