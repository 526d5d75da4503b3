package tierstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/rest"
)

// followPause is the time between two attempts to hear what other processes change. It doubles with
// each attempt that fails, up to longestFollowPause.
const (
	followPause        = time.Second
	longestFollowPause = time.Minute
)

// Follow drops copies from a [Memory] as soon as other processes change or delete their records,
// until ctx ends. It uses a connection of the origin's; whenever that begins or ends, all copies
// are dropped, because what was announced meanwhile is not known. Without Follow, and while the
// connection is broken, a change elsewhere is seen after [Config].TTL; see [Config].Deaf. Run it
// once for each Store.
//
// It returns the error of ctx, or [stet.ErrUnsupported] at once if the origin announces nothing or
// the cache is a shared one. Stores in Redis announce, and stores in Postgres that listen.
func (s *Store) Follow(ctx context.Context) error {
	m, local := s.cache.(*Memory)
	a, ok := stet.As[ability.Announcer](s.origin)
	if !local || !ok {
		return fmt.Errorf("%w: the cache hears of no changes", stet.ErrUnsupported)
	}
	pause, told := followPause, false
	for {
		var heard atomic.Bool
		err := a.Follow(ctx, func() { heard.Store(true); m.forget() }, m.changed)
		switch {
		case heard.Load():
			m.forget()
			pause, told = followPause, false
		case ctx.Err() != nil:
		case errors.Is(err, stet.ErrUnsupported):
			return err
		default: // nothing was heard since the copies were dropped: dropping them again gains nothing
			if !told && s.cfg.Deaf != nil {
				s.cfg.Deaf(err)
			}
			told = true
		}
		if !rest.For(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, longestFollowPause)
	}
}
