package redisstore

import (
	"context"
	"crypto/sha1" // what the scripts have
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// Subscriber is a [Client] that can listen to a channel of the server. Caches in several processes
// need it to learn at once what the others change; see tierstore.Store.Follow.
type Subscriber interface {
	// Subscribe calls heard with each message of the channel until ctx ends or the connection does,
	// and returns the reason. It calls ready when the server has begun to deliver.
	Subscribe(ctx context.Context, channel string, ready func(), heard func(message string)) error
}

var _ ability.Announcer = (*Store)(nil)

// Follow calls heard with the [Store.Hash] of each result that any process changes or deletes
// before its time is over, until ctx or the connection ends. It calls ready when it begins to hear,
// and if it hears what it does not understand. The error is [stet.ErrUnsupported] if the client is
// no [Subscriber]. The user of the server needs the right to use the channel PREFIX:results;
// without it nothing is heard.
func (s *Store) Follow(ctx context.Context, ready func(), heard func(hash uint32)) error {
	c, ok := s.client.(Subscriber)
	if !ok {
		return fmt.Errorf("redisstore: %w: its client cannot subscribe", stet.ErrUnsupported)
	}
	err := c.Subscribe(ctx, s.prefix+":results", ready, func(hash string) {
		if n, err := strconv.ParseUint(hash, 16, 32); err == nil {
			heard(uint32(n))
		} else {
			ready()
		}
	})
	return fmt.Errorf("redisstore: follow: %w", err)
}

// Hash returns what [Store.Follow] calls a record. The channel has no more of it than that: who may
// listen need not be one who may read scopes and keys.
func (s *Store) Hash(id stet.ID) uint32 {
	w := s.buffers.get()
	defer s.buffers.put(w)
	w.member(id)
	sum := sha1.Sum(*w)
	return binary.BigEndian.Uint32(sum[:])
}
