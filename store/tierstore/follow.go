package tierstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/rest"
)

// followPause is the time between two attempts to hear what other processes change.
const followPause = time.Second

// Follow drops copies from a [Memory] as soon as other processes change or delete their records,
// until ctx ends. It uses a connection of the origin's; whenever that begins or ends, all copies
// are dropped, because what was announced meanwhile is not known. Without Follow, and while the
// connection is broken, a change elsewhere is seen after [Config].TTL. Run it once for each Store.
//
// It returns the error of ctx, or [stet.ErrUnsupported] at once if the origin announces nothing or
// the cache is a shared one. Stores in Redis announce, and stores in Postgres that listen.
func (s *Store) Follow(ctx context.Context) error {
	m, local := s.cache.(*Memory)
	a, ok := stet.As[ability.Announcer](s.origin)
	if !local || !ok {
		return fmt.Errorf("%w: the cache hears of no changes", stet.ErrUnsupported)
	}
	for {
		err := a.Follow(ctx, m.forget, m.changed)
		m.forget()
		if ctx.Err() == nil && errors.Is(err, stet.ErrUnsupported) {
			return err
		}
		if !rest.For(ctx, followPause) {
			return ctx.Err()
		}
	}
}
