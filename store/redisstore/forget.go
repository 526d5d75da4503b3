package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// forgetBatch is how many entries one script trims or copies: others wait for it.
const forgetBatch = 250

// Trim implements [stet.Forgetter], one shard after the other.
func (s *Store) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	for shard := 0; shard < s.shards && n < limit; {
		most := min(limit-n, forgetBatch)
		p := s.historyOf(shard)
		got, err := s.confirmed(ctx, trimScript, p, appending, strconv.FormatInt(age.Microseconds(), 10), strconv.Itoa(most))
		if err != nil {
			return n, wrap("trim", err)
		}
		gone, _ := got.(int64)
		if n += int(gone); int(gone) < most {
			shard++
		}
	}
	return n, nil
}

// historyOf is the place of a shard's history, for scripts that write it.
func (s *Store) historyOf(shard int) *place {
	p := s.whole(shard)
	p.identity = s.identityOf(p.shard)
	for _, key := range []string{":history", ":copy", ":turn"} {
		p.also = append(p.also, p.shard+key)
	}
	return p
}

// Erase implements [stet.Forgetter]. It reads the history of each shard that may have such entries.
// One that has them is copied, a batch at a time, without what is to be erased.
func (s *Store) Erase(ctx context.Context, q stet.HistoryQuery) (n int, err error) {
	if err := q.Erasable(); err != nil {
		return 0, wrap("erase", err)
	}
	from, to := 0, s.shards
	if q.ID != (stet.ID{}) {
		from = slices.Index(s.names, s.place(q.ID).shard)
		to = from + 1
	}
	for shard := from; shard < to && n < q.Bound(); shard++ {
		some, err := s.eraseIn(ctx, shard, &q, q.Bound()-n)
		if n += some; err != nil {
			return n, wrap("erase", err)
		}
	}
	return n, nil
}

// maxTurns is how often a copy is begun again because another one was begun, or entries were
// trimmed.
const maxTurns = 5

func (s *Store) eraseIn(ctx context.Context, shard int, q *stet.HistoryQuery, limit int) (n int, err error) {
	for range maxTurns {
		some, err := s.has(ctx, shard, q)
		if err != nil || !some {
			return 0, err
		}
		if n, done, err := s.copy(ctx, shard, q, limit); done || err != nil {
			return n, err
		}
	}
	return 0, fmt.Errorf("%w: others change the history as well", stet.ErrBusy)
}

// has reports whether q selects an entry of the shard.
func (s *Store) has(ctx context.Context, shard int, q *stet.HistoryQuery) (bool, error) {
	for after := ""; ; {
		batch, err := s.rows(ctx, shard, after)
		if err != nil || len(batch) == 0 {
			return false, err
		}
		for i := range batch {
			if q.Matches(&batch[i].Change) {
				return true, nil
			}
		}
		after = batch[len(batch)-1].name()
	}
}

// turnTime is how long a copy may take from one batch to its end. Another one may begin earlier.
const turnTime = time.Minute

// copy puts a copy in the place of a shard's history. It returns false if another one was begun, or
// the history was trimmed, before it came to the end.
func (s *Store) copy(ctx context.Context, shard int, q *stet.HistoryQuery, limit int) (n int, done bool, err error) {
	p, turn := s.historyOf(shard), rand.Text()
	args := []string{turn, strconv.FormatInt(turnTime.Milliseconds(), 10)}
	for after := ""; ; args = []string{turn, ""} {
		batch, err := s.rows(ctx, shard, after)
		if err != nil || len(batch) == 0 {
			return 0, false, err
		}
		for i := range batch {
			e := &batch[i]
			if n < limit && q.Matches(&e.Change) {
				c := e.Erased()
				e.values["m"], e.values["n"] = string(codec.AppendID(nil, c.ID)), encodeEntry(c.Tag, c.Attempt, &c.Note)
				n++
			}
			args = append(args, e.name(), e.values["m"], e.values["f"], e.values["t"], e.values["a"], e.values["n"])
		}
		switch got, err := s.confirmed(ctx, copyScript, p, appending, args...); {
		case err != nil:
			return 0, false, err
		case got == "ok":
			return n, true, nil
		case got != "more":
			return 0, false, nil
		}
		after = batch[len(batch)-1].name()
	}
}

// rows reads the next batch of a shard's history, oldest first, behind the entry after.
func (s *Store) rows(ctx context.Context, shard int, after string) ([]entry, error) {
	key, from := s.shard(shard)+":history", "-"
	if after != "" {
		from = "(" + after
	}
	return s.entries(ctx, "XRANGE", key, from, "+", forgetBatch)
}
