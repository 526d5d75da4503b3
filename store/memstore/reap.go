package memstore

import "context"

// Reap implements [stet.Reaper]. Between two records it lets requests at the shard.
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	now := s.now()
	for i := range s.shards {
		sh := &s.shards[i]
		for gone := true; gone && n < limit; {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			sh.mu.Lock()
			if gone = s.dropEnded(sh, now); gone {
				n++
			}
			sh.mu.Unlock()
		}
	}
	return n, nil
}
