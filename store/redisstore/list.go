package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stet-dev/stet"
)

// atOnce is how many shards are asked at a time.
const atOnce = 8

// each asks every shard, several at a time.
func (s *Store) each(ctx context.Context, ask func(ctx context.Context, shard int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range s.shards {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if err := ask(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// found is a head with its place in an index.
type found struct {
	member, score string
	head          stet.Head
	ok            bool // it can be read
}

// heads runs a query of one shard.
func (s *Store) heads(ctx context.Context, shard int, args ...string) (all []found, more bool, err error) {
	prefix := s.shard(shard)
	got, err := s.run(ctx, headsScript, prefix, prefix, false, args...)
	if err != nil {
		return nil, false, err
	}
	list, _ := got.([]any)
	if len(list) < 2 {
		return nil, false, errTorn
	}
	for _, v := range list[2:] {
		row, ok := v.([]any)
		if !ok || len(row) != 3 {
			return nil, false, errTorn
		}
		f := found{}
		f.member, _ = row[0].(string)
		f.score, _ = row[1].(string)
		f.ok = s.decode(&f.head, nil, []any{list[0], row[2]}, &place{member: f.member, owner: crc32.Checksum([]byte(f.member), castagnoli)}) == nil
		all = append(all, f)
	}
	return all, list[1] == "1", nil
}

func limit(q *stet.Query) int { return min(cmp.Or(max(q.Limit, 0), stet.DefaultLimit), stet.MaxLimit) }

func stateNumbers(states []stet.State) []string {
	if len(states) == 0 {
		states = []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	var all []string
	for _, st := range slices.Compact(slices.Sorted(slices.Values(states))) {
		all = append(all, strconv.Itoa(int(st)))
	}
	return all
}

// Due implements [stet.Store]. Records that cannot be read are left out.
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	n := limit(&q)
	var mu sync.Mutex
	var due []stet.Head
	err := s.each(ctx, func(ctx context.Context, shard int) error {
		matching := 0
		for skip, more := 0, true; more && matching < n; skip += n { // what does not match must not hide what does
			var all []found
			var err error
			all, more, err = s.heads(ctx, shard, append([]string{"due", strconv.Itoa(n), strconv.Itoa(skip)}, stateNumbers(q.States)...)...)
			if err != nil {
				return err
			}
			mu.Lock()
			for i := range all {
				// A record that vanished may have left its name in an index, and be in a new life by now, which is not due.
				if all[i].ok && all[i].head.Over() && matches(&all[i].head, &q) {
					due = append(due, all[i].head)
					matching++
				}
			}
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("redisstore: due: %w", err)
	}
	slices.SortFunc(due, func(a, b stet.Head) int { return a.DueAt.Compare(b.DueAt) })
	return due[:min(n, len(due))], "", nil
}

func matches(h *stet.Head, q *stet.Query) bool {
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, h.State), q.Scope != "" && q.Scope != h.Scope, q.Route != "" && q.Route != h.Route,
		q.Failed && h.Status < 500, q.Succeeded && h.Status >= 500,
		q.OlderThan > 0 && h.CreatedAt.After(h.AsOf.Add(-q.OlderThan)):
		return false
	}
	return true
}

// cursor is where a list goes on: in a shard, below a record.
type cursor struct {
	shard         int
	score, member string
}

var errCursor = errors.New("redisstore: the cursor is none of this store's")

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(c.shard) + "," + c.score + "," + c.member))
}

func (s *Store) parse(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.SplitN(string(raw), ",", 3)
	if err != nil || len(parts) != 3 {
		return c, errCursor
	}
	if c.shard, err = strconv.Atoi(parts[0]); err != nil || c.shard < 0 || c.shard >= s.shards {
		return c, errCursor
	}
	c.score, c.member = parts[1], parts[2]
	if c.score != "" {
		if _, err := strconv.ParseFloat(c.score, 64); err != nil {
			return c, errCursor
		}
	}
	return c, nil
}

// List implements [stet.Lister]: shard by shard, and within one the newest first. A cursor holds a key, encoded but not hidden.
func (s *Store) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	c, err := s.parse(q.After)
	if err != nil {
		return nil, "", err
	}
	n := limit(&q)
	for ; c.shard < s.shards; c = (cursor{shard: c.shard + 1}) {
		for {
			all, more, err := s.heads(ctx, c.shard, "list", strconv.Itoa(n-len(heads)), c.score, c.member)
			if err != nil {
				return nil, "", fmt.Errorf("redisstore: list: %w", err)
			}
			for i := range all {
				c.score, c.member = all[i].score, all[i].member
				if all[i].ok && matches(&all[i].head, &q) {
					heads = append(heads, all[i].head)
				}
			}
			if len(heads) == n && (more || c.shard+1 < s.shards) {
				return heads, c.String(), nil
			}
			if !more || len(all) == 0 {
				break
			}
		}
	}
	return heads, "", nil
}

// Count implements [stet.Counter]. By state it costs little; by anything else the records are looked through, up to q.Limit of
// those that match.
func (s *Store) Count(ctx context.Context, q stet.Query) (n int, err error) {
	if q.Scope != "" || q.Route != "" || q.Failed || q.Succeeded || q.OlderThan > 0 {
		return s.look(ctx, q)
	}
	var mu sync.Mutex
	err = s.each(ctx, func(ctx context.Context, i int) error {
		shard := s.shard(i)
		got, err := s.run(ctx, countScript, shard, shard, false, stateNumbers(q.States)...)
		if err != nil {
			return err
		}
		k, _ := got.(int64)
		mu.Lock()
		defer mu.Unlock()
		n += int(k)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("redisstore: count: %w", err)
	}
	return n, nil
}

func (s *Store) look(ctx context.Context, q stet.Query) (n int, err error) {
	enough := cmp.Or(max(q.Limit, 0), stet.DefaultLimit)
	for q.Limit, q.After = stet.MaxLimit, ""; n < enough; {
		heads, next, err := s.List(ctx, q)
		if err != nil {
			return 0, err
		}
		n += len(heads)
		if q.After = next; next == "" {
			break
		}
	}
	return n, nil
}

// Find implements [stet.Finder]. Every shard is asked: a name does not tell where its record is.
func (s *Store) Find(ctx context.Context, name string) (heads []stet.Head, err error) {
	if name == "" {
		return nil, nil
	}
	var mu sync.Mutex
	err = s.each(ctx, func(ctx context.Context, shard int) error {
		all, _, err := s.heads(ctx, shard, "named", strconv.Itoa(stet.DefaultLimit), name)
		mu.Lock()
		defer mu.Unlock()
		for i := range all {
			if h := &all[i].head; all[i].ok && (h.DownstreamKey == name || h.DownstreamID == name) {
				heads = append(heads, *h)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("redisstore: find: %w", err)
	}
	return heads[:min(len(heads), stet.DefaultLimit)], nil
}
