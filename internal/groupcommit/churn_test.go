package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Callers that come and go at random: every write is answered, what was answered with success happened once, what was
// answered with "nothing was written" did not, and no goroutine stays behind (the bubble would not end).
func TestQueueUnderChurn(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var happened sync.Map
			d := &disk{}
			d.carry = func(w *write) {
				if _, twice := happened.LoadOrStore(w.key, true); twice {
					t.Errorf("seed %d: %s twice", seed, w.key)
				}
				time.Sleep(time.Duration(len(w.key)) * time.Microsecond)
			}
			q := d.queue()
			var wg sync.WaitGroup
			for i := range 300 {
				patience, start := time.Duration(rng.IntN(3000))*time.Microsecond, time.Duration(rng.IntN(3000))*time.Microsecond
				wg.Go(func() {
					time.Sleep(start)
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					key := fmt.Sprint(i)
					err := q.Do(to(ctx, key))
					_, did := happened.Load(key)
					switch {
					case err == nil && !did:
						t.Errorf("seed %d: %s was answered and did not happen", seed, key)
					case errors.Is(err, ErrNothing) && did:
						t.Errorf("seed %d: %s happened", seed, key)
					}
				})
			}
			wg.Wait()
		})
	}
}
