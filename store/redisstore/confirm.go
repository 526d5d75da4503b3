package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
)

// confirmed carries out a script that writes, if the server has the store that it has to be, and
// waits until the replicas have the write (B01).
// says reports by an answer whether the script wrote, or found the result of an earlier try of the
// same write, which may be on this server alone as well. For any other answer it does not wait, so
// that reads cost the same with and without replicas.
func (s *Store) confirmed(
	ctx context.Context, script *script, p *place, says func(answer any) wrote, args ...string,
) (any, error) {
	if s.gate == nil {
		return s.sent(ctx, script, p, says, append(args, "")...)
	}
	for tries := 0; ; tries++ {
		if err := s.gate.Write(ctx); err != nil {
			return nil, err
		}
		sight := s.gate.Sight()
		got, err := s.sent(ctx, script, p, says, append(args[:len(args):len(args)], begins(&sight.Known))...)
		if err == nil && got != other || errors.Is(err, stet.ErrUnconfirmed) {
			_ = sight.Saw(sight.Known) // it is what it has to be, and need not be looked at for a while
		}
		if err != nil || got != other {
			return got, err
		}
		if err := s.gate.Again(ctx); err != nil {
			return nil, err
		}
		if tries > 0 { // otherwise it was accepted by another process
			return nil, fmt.Errorf("%w: the server of this key has another one than others", stet.ErrForeign)
		}
	}
}

// sent sends a script that writes, and waits for replicas.
func (s *Store) sent(
	ctx context.Context, script *script, p *place, says func(answer any) wrote, args ...string,
) (any, error) {
	if s.wait == 0 {
		return s.ask(ctx, script, p, args...)
	}
	got, err := s.run(ctx, script, p, func(answer any) [][]string {
		wait := []string{"WAIT", s.waitFor, s.waitUpTo(ctx)}
		switch says(answer) {
		case doneNow:
			return [][]string{wait}
		case doneBefore:
			return [][]string{{"EVAL", touch, "1", p.shard + ":wait"}, wait}
		case doneNothing:
		}
		return nil
	}, args...)
	if err != nil || len(got) == 1 {
		return first(got), err
	}
	if n, ok := got[len(got)-1].(int64); !ok || n < int64(s.wait) {
		return nil, fmt.Errorf("%w: %d of %d replicas have the write, which may have happened", stet.ErrUnconfirmed, n, s.wait)
	}
	return got[0], nil
}

// waitMargin is how much earlier than the caller's deadline a WAIT has to end. The server checks
// for the end of a WAIT every 100 ms (at its usual hz of 10), and its answer takes time to arrive.
const waitMargin = 150 * time.Millisecond

// waitUpTo returns for how many milliseconds a write waits. The wait ends before ctx, because too
// few replicas are another failure than a server that does not answer.
func (s *Store) waitUpTo(ctx context.Context) string {
	left := s.waitTimeout
	if end, limited := ctx.Deadline(); limited {
		left = min(left, time.Until(end)-waitMargin)
	}
	return strconv.FormatInt(max(1, left.Milliseconds()), 10) // 0 would be for ever
}

// wrote is what an answer says about a write.
type wrote uint8

const (
	doneNothing wrote = iota // this is no answer of one that happened
	doneNow                  // it has just happened
	doneBefore               // an earlier try of it has happened
)

// touch writes something. WAIT waits for the last write of its connection, and the earlier try used
// another connection.
const touch = beyondMaxmemory + "redis.call('SET', KEYS[1], '')"

// showing is for scripts that answer with instants if they have written, and otherwise with the
// record that is there. If that has this version, an earlier try wrote it.
func showing(version stet.Version) func(answer any) wrote {
	mine := stamped(version)
	return func(answer any) wrote {
		switch answer := answer.(type) {
		case string:
			if answer != gone && answer != other {
				return doneNow
			}
		case []any:
			if record, _ := answer[len(answer)-1].(string); len(record) >= atState && record[atFormat:atState] == mine {
				return doneBefore
			}
		}
		return doneNothing
	}
}

// appending is for the script that adds to the history, which writes each time.
func appending(answer any) wrote {
	if answer == other {
		return doneNothing
	}
	return doneNow
}

// removing is for the script that deletes. A record that is gone may have been removed by an
// earlier try.
func removing(answer any) wrote {
	switch answer {
	case done:
		return doneNow
	case gone:
		return doneBefore
	}
	return doneNothing
}
