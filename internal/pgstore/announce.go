package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/tablestore"
)

var _ ability.Announcer = (*Store)(nil)

// results begins the notifications of what caches have copies of. Without a name behind it, the
// notification stands for any number of them.
const results = "="

// wasResult reports whether the write may have changed a result: it deletes, or keeps when its
// record was completed, or an operator has noted it.
func (o *op) wasResult() bool {
	return o.Verb == tablestore.Remove || !o.Head.CompletedAt.IsZero() || o.Head.Note != nil
}

// Follow calls heard with the Hash of each result that any process changes, on a connection that
// listens, until ctx or the connection ends. It calls ready when it begins to hear, and when names
// of results were not sent. The error is [stet.ErrUnsupported] without [Config].Listen.
func (s *Store) Follow(ctx context.Context, ready func(), heard func(hash uint32)) error {
	if s.cfg.Listen == nil {
		return fmt.Errorf("%s: %w: it does not listen", s.cfg.Package, stet.ErrUnsupported)
	}
	err := s.cfg.Listen(ctx, channel, ready, func(payload string) {
		name, ok := strings.CutPrefix(payload, results)
		switch n, named := hash(name); {
		case ok && named:
			heard(n)
		case ok:
			ready()
		}
	})
	return s.wrap("follow", Fault(ctx, err))
}

// Hash is what announcements call a record.
func (s *Store) Hash(id stet.ID) uint32 {
	n, _ := hash(name(id))
	return n
}

// hash is the end of a name.
func hash(name string) (n uint32, named bool) {
	end, err := strconv.ParseUint(name[max(0, len(name)-8):], 16, 32)
	return uint32(end), err == nil
}
