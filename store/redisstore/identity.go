package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storeid"
)

// A server has the identity once. In a cluster each shard has it, as a script sees one slot alone
// and each master can be set back by itself. The first place leads: its mark is raised, and the
// others then get what it has. What all of them have is the identity of the store, with the lowest
// mark of theirs.

// apart is by how much the marks of two places may differ when a store is opened: each process that
// raises them may have been cut short.
const apart = 16

// lookFor is how long a look waits for a server of a cluster before it goes by the others. If none
// has answered by then, it asks all of them again, and waits longer.
const lookFor = 500 * time.Millisecond

// errElsewhere is for the identity of a store of copies.
var errElsewhere = fmt.Errorf("redisstore: %w: a store of copies has no identity", stet.ErrUnsupported)

// openGate learns which store it is.
func (s *Store) openGate(ctx context.Context) error {
	s.gate = &storeid.Gate{Look: s.lookAtIdentity, Make: s.makeIdentity, Raise: s.raiseIdentity}
	if err := s.gate.Open(ctx); err != nil {
		return err
	}
	all, err := s.identities(ctx)
	if err != nil {
		return err
	}
	highest := highestIdentity(all)
	if least := wholeIdentity(all, highest.ID); least.ID != highest.ID || highest.Mark-least.Mark > apart {
		s.gate.Know(highest) // one server has less than the others
	}
	return nil
}

// places is how many places have the identity.
func (s *Store) places() int {
	if s.sharded {
		return s.shards
	}
	return 1
}

// identityOf returns the key of the identity for the records of a shard.
func (s *Store) identityOf(shard string) string {
	if !s.sharded {
		shard = s.shard(0)
	}
	return shard + ":store"
}

// identities reads the identity in each place.
func (s *Store) identities(ctx context.Context) ([]stet.Identity, error) {
	all := make([]stet.Identity, s.places())
	err := s.inPlaces(ctx, 0, func(ctx context.Context, i int) (err error) {
		all[i], err = s.identityAt(ctx, i)
		return err
	})
	return all, err
}

func (s *Store) identityAt(ctx context.Context, i int) (stet.Identity, error) {
	key := s.identityOf(s.shard(i))
	got, err := s.again(ctx, func() ([]any, error) { return s.client.Do(ctx, key, []string{"GET", key}, nil) })
	if err != nil || first(got) == nil {
		return stet.Identity{}, err
	}
	return parseIdentity(first(got))
}

// inPlaces does something in each place from one on, several at a time.
func (s *Store) inPlaces(ctx context.Context, from int, do func(ctx context.Context, i int) error) error {
	var places []int
	for i := from; i < s.places(); i++ {
		places = append(places, i)
	}
	return s.among(ctx, places, do)
}

// lookAtIdentity is for [storeid.Gate].Look. A server of a cluster that gives no answer does not
// hide what the others have, and does not keep them from being written: the scripts look at what it
// has when it is back.
func (s *Store) lookAtIdentity(ctx context.Context) (stet.Identity, error) {
	known := s.gate.Sight().Known
	if s.places() == 1 || known.ID == "" {
		all, err := s.identities(ctx)
		if err != nil {
			return stet.Identity{}, err
		}
		return atKnown(wholeIdentity(all, known.ID), known, s.wait > 0), nil
	}
	for wait := lookFor; ; wait *= 2 {
		began := time.Now()
		all, silent, err := s.askedIdentities(ctx, wait)
		if err != nil {
			return stet.Identity{}, err
		}
		heard := slices.ContainsFunc(all, func(now *stet.Identity) bool { return now != nil })
		if heard || ctx.Err() != nil || time.Since(began) < wait {
			return answeredIdentity(all, known, s.wait > 0, fmt.Errorf("no server has answered: %w", silent))
		}
	}
}

// askedIdentities reads the identity in each place, and waits so long for each. silent is why one
// has not answered.
func (s *Store) askedIdentities(ctx context.Context, wait time.Duration) (all []*stet.Identity, silent, err error) {
	all = make([]*stet.Identity, s.places())
	var mu sync.Mutex
	err = s.inPlaces(ctx, 0, func(ctx context.Context, i int) error {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		now, err := s.identityAt(ctx, i)
		switch {
		case err == nil:
			all[i] = &now
		case errors.Is(err, errTorn):
			return err
		default:
			mu.Lock()
			silent = err
			mu.Unlock()
		}
		return nil
	})
	return all, silent, err
}

// answeredIdentity is the identity of the store by the places that have answered. Where one has
// not, the store has come as far as is known, and no further.
func answeredIdentity(all []*stet.Identity, known stet.Identity, confirmed bool, silent error) (stet.Identity, error) {
	var heard []stet.Identity
	for _, now := range all {
		if now != nil {
			heard = append(heard, *now)
		}
	}
	if len(heard) == 0 {
		return stet.Identity{}, silent
	}
	return atKnown(wholeIdentity(heard, known.ID), known, confirmed || len(heard) < len(all)), nil
}

// atKnown returns what the store was at the known mark, if it has gone on since and only that mark
// is certain: a look does not tell which replicas have the next one.
func atKnown(now, known stet.Identity, only bool) stet.Identity {
	if steps := now.Mark - known.Mark; only && now.ID == known.ID && steps > 0 {
		now.Mark, now.Trail = known.Mark, now.Trail[min(steps*int64(len(storeid.Step())), int64(len(now.Trail))):]
	}
	return now
}

// wholeIdentity returns the identity of the store by those in its places: the one with the lowest
// mark, or one that is another than is known.
func wholeIdentity(all []stet.Identity, known string) stet.Identity {
	if !slices.ContainsFunc(all, func(now stet.Identity) bool { return now.ID == known }) {
		known = highestIdentity(all).ID
	}
	least := highestIdentity(all)
	for _, now := range all {
		switch {
		case now.ID != known:
			return now
		case now.Mark <= least.Mark || least.ID != known:
			least = now
		}
	}
	return least
}

func highestIdentity(all []stet.Identity) stet.Identity {
	return slices.MaxFunc(all, func(a, b stet.Identity) int { return cmp.Or(cmp.Compare(a.Mark, b.Mark), cmp.Compare(a.ID, b.ID)) })
}

// makeIdentity is for [storeid.Gate].Make.
func (s *Store) makeIdentity(ctx context.Context, was, next stet.Identity) error {
	all, err := s.identities(ctx)
	if err != nil || wholeIdentity(all, s.gate.Sight().Known.ID).ID != was.ID {
		return err
	}
	isNew := len(next.Replaces) == 0
	if begun := highestIdentity(all); isNew && begun.ID != "" { // by another process, or one of the servers was emptied
		if begun.Mark > 0 {
			return nil
		}
		next = begun
	}
	first, err := s.exchange(ctx, 0, all[0], next)
	if err != nil || first.ID != next.ID && !isNew {
		return err
	}
	return s.inPlaces(ctx, 1, func(ctx context.Context, i int) error {
		_, err := s.exchange(ctx, i, all[i], first)
		return err
	})
}

// exchange puts an identity into a place that has another one, and returns what is there then.
func (s *Store) exchange(ctx context.Context, i int, was, next stet.Identity) (stet.Identity, error) {
	got, err := s.ask(ctx, exchangeScript, s.identityPlace(i), formatIdentity(was), formatIdentity(next), "")
	if err != nil {
		return stet.Identity{}, err
	}
	return parseIdentity(got)
}

// raiseIdentity is for [storeid.Gate].Raise. A mark that no replica has confirmed is not known: the
// replica may become the master.
func (s *Store) raiseIdentity(ctx context.Context, known stet.Identity, step string) (stet.Identity, error) {
	must := begins(&known)
	got, err := s.sent(ctx, raiseScript, s.identityPlace(0), appending, step, must)
	if err != nil || got == other {
		return s.raisedElsewhere(ctx, err)
	}
	raised, err := parseIdentity(got)
	if err != nil || s.places() == 1 {
		return raised, err
	}
	all := make([]stet.Identity, s.places())
	all[0] = raised
	err = s.inPlaces(ctx, 1, func(ctx context.Context, i int) error {
		got, err := s.sent(ctx, followScript, s.identityPlace(i), appending, formatIdentity(raised), must)
		switch {
		case err != nil:
			return err
		case got == other:
			all[i], err = s.identityAt(ctx, i)
		default:
			all[i], err = parseIdentity(got)
		}
		return err
	})
	if err != nil {
		return stet.Identity{}, err
	}
	return wholeIdentity(all, known.ID), nil
}

// raisedElsewhere reads what there is instead of the identity that was to be raised.
func (s *Store) raisedElsewhere(ctx context.Context, err error) (stet.Identity, error) {
	if err != nil {
		return stet.Identity{}, err
	}
	return s.lookAtIdentity(ctx)
}

// identityPlace is what scripts on the identity of a shard are given.
func (s *Store) identityPlace(shard int) *place {
	p := s.whole(shard)
	p.identity = s.identityOf(p.shard)
	return p
}

// formatIdentity is what a place has, as same.lua describes it.
func formatIdentity(id stet.Identity) string {
	if id.ID == "" {
		return ""
	}
	trail := id.Trail
	if trail == "" {
		trail = "-"
	}
	return fmt.Sprintf("%s%d %s %s", begins(&id), id.Made.UnixMicro(), trail, strings.Join(id.Replaces, " "))
}

// begins is how a place with an identity begins.
func begins(id *stet.Identity) string {
	if id.ID == "" {
		return ""
	}
	mark := strconv.FormatInt(id.Mark, 10)
	return "0000000000000000"[min(len(mark), 16):] + mark + " " + id.ID + " "
}

func parseIdentity(from any) (id stet.Identity, err error) {
	text, _ := from.(string)
	parts := strings.SplitN(text, " ", 5)
	if len(parts) != 5 || len(parts[0]) != 16 || parts[1] == "" {
		return id, fmt.Errorf("%w: the identity of the store", errTorn)
	}
	mark, err1 := strconv.ParseInt(parts[0], 10, 64)
	made, err2 := strconv.ParseInt(parts[2], 10, 64)
	if errors.Join(err1, err2) != nil {
		return id, fmt.Errorf("%w: the identity of the store", errTorn)
	}
	id = stet.Identity{ID: parts[1], Mark: mark, Trail: strings.TrimPrefix(parts[3], "-"), Made: time.UnixMicro(made).UTC(), Replaces: strings.Fields(parts[4])}
	return id, nil
}

// Identity implements [stet.Identified].
func (s *Store) Identity(ctx context.Context) (now, known stet.Identity, err error) {
	if s.gate == nil {
		return now, known, errElsewhere
	}
	now, known, err = s.gate.Identity(ctx)
	return now, known, wrap("identity", err)
}

// Know implements [stet.Identified].
func (s *Store) Know(known stet.Identity) {
	if s.gate != nil {
		s.gate.Know(known)
	}
}

// Accept implements [stet.Identified].
func (s *Store) Accept(ctx context.Context) (stet.Identity, error) {
	if s.gate == nil {
		return stet.Identity{}, errElsewhere
	}
	now, err := s.gate.Accept(ctx)
	return now, wrap("accept", err)
}

// Close ends what the store does by itself. The client stays open, since it belongs to the caller.
func (s *Store) Close() error {
	if s.gate != nil {
		s.gate.Close()
	}
	return nil
}
