package memstore

import "context"

// reapBatch is how many records are removed while a shard is locked. Requests wait no longer than
// that.
const reapBatch = 64

// Reap implements [stet.Reaper].
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	now := s.now()
	for i := range s.shards {
		for more := true; more && n < limit; {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			k := s.reapIn(&s.shards[i], now, min(limit-n, reapBatch))
			n += k
			more = k == reapBatch
		}
	}
	return n, nil
}

func (s *Store) reapIn(sh *shard, now int64, limit int) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := 0
	for n < limit && s.dropEnded(sh, now) {
		n++
	}
	return n
}
