package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// atOnce is how many shards are asked at a time.
const atOnce = 8

// each asks every shard, several at a time, and returns their answers in order.
func each[T any](ctx context.Context, s *Store, ask func(ctx context.Context, shard int) (T, error)) ([]T, error) {
	shards, answers := make([]int, s.shards), make([]T, s.shards)
	for i := range shards {
		shards[i] = i
	}
	err := s.among(ctx, shards, func(ctx context.Context, i int) (err error) {
		answers[i], err = ask(ctx, i)
		return err
	})
	return answers, err
}

// among asks some shards, several at a time.
func (s *Store) among(ctx context.Context, shards []int, ask func(ctx context.Context, shard int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asking := walk.NewWorkers(atOnce)
	for _, i := range shards {
		if !asking.Go(ctx, func() {
			if err := ask(ctx, i); err != nil {
				cancel(err)
			}
		}) {
			break
		}
	}
	asking.Wait()
	return context.Cause(ctx)
}

// whole returns the place of a shard itself.
func (s *Store) whole(shard int) *place { return &place{record: s.shard(shard), shard: s.shard(shard)} }

// found is a head and its place in an index.
type found struct {
	member, score string
	head          stet.Head
	ok            bool // it can be read
}

// heads runs a query on one shard. more is what the script says about further records.
func (s *Store) heads(ctx context.Context, script *script, shard int, args ...string) (all []found, more string, err error) {
	got, err := s.ask(ctx, script, s.whole(shard), args...)
	if err != nil {
		return nil, "", err
	}
	list, _ := got.([]any)
	if len(list) < 2 {
		return nil, "", errTorn
	}
	more, _ = list[1].(string)
	for _, v := range list[2:] {
		row, ok := v.([]any)
		if !ok || len(row) != 3 {
			return nil, "", errTorn
		}
		f := found{}
		f.member, _ = row[0].(string)
		f.score, _ = row[1].(string)
		f.ok = s.decode(&f.head, nil, []any{list[0], row[2]}, &place{member: f.member, owner: crc32.Checksum([]byte(f.member), castagnoli)}) == nil
		all = append(all, f)
	}
	return all, more, nil
}

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

// cursor is where a list continues: in a shard, after a record.
type cursor struct {
	shard         int
	score, member string
}

var errCursor = errors.New("redisstore: the cursor is none of this store's")

// What a cursor is of, which is its first letter.
const ofList, ofDue, ofHistory = "l", "d", "h"

// makeCursor returns the cursor of a text.
func makeCursor(of, text string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(of + text))
}

// openCursor returns the text of a cursor.
func openCursor(of, cursor string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	text, ours := strings.CutPrefix(string(raw), of)
	if err != nil || !ours {
		return "", errCursor
	}
	return text, nil
}

func (c cursor) String() string {
	return makeCursor(ofList, strconv.Itoa(c.shard)+","+c.score+","+c.member)
}

func (s *Store) parse(cursor string) (c cursor, err error) {
	if cursor == "" {
		return c, nil
	}
	text, err := openCursor(ofList, cursor)
	parts := strings.SplitN(text, ",", 3)
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

// look is how many records a page of a list reads at most. lookAtOnce is how many a server reads
// before it serves other clients.
const look, lookAtOnce = 10_000, 500

// List implements [stet.Lister], shard by shard, and within a shard the newest first. A page reads
// up to 10,000 records; records named by their tag, or by scope and key, are found by an index. A
// cursor contains a key, encoded but not encrypted.
func (s *Store) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	c, err := s.parse(q.After)
	if err != nil {
		return nil, "", err
	}
	switch {
	case q.Tag != "":
		heads, next, err = s.few(ctx, q, c, s.tagged)
	case q.Scope != "" && q.Key != "":
		heads, next, err = s.few(ctx, q, c, s.named)
	default:
		heads, next, err = s.walk(ctx, q, c)
	}
	return heads, next, wrap("list", err)
}

func (s *Store) walk(ctx context.Context, q stet.Query, c cursor) (heads []stet.Head, next string, err error) {
	n, back, step, looked, passes := q.Bound(), "", 1, 0, len(q.States) > 0 || !q.ByState()
	if q.Oldest {
		if back, step = "back", -1; q.After == "" {
			c.shard = s.shards - 1
		}
	}
	for ; 0 <= c.shard && c.shard < s.shards; c = (cursor{shard: c.shard + step}) {
		for more := "1"; more != ""; {
			var all []found
			limit := lookAtOnce
			if !passes { // over records
				limit = min(limit, n-len(heads)+1)
			}
			all, more, err = s.heads(ctx, listScript, c.shard, strconv.Itoa(limit), c.score, c.member, back)
			if err != nil {
				return nil, "", err
			}
			for i := range all {
				if looked == look || len(heads) == n { // there is one more
					return heads, c.String(), nil
				}
				c.score, c.member, looked = all[i].score, all[i].member, looked+1
				if all[i].ok && q.Matches(&all[i].head) {
					heads = append(heads, all[i].head)
				}
			}
			if len(all) == 0 {
				break
			}
		}
	}
	return heads, "", nil
}

// few is a list, in the order of creation, of what find returns.
func (s *Store) few(ctx context.Context, q stet.Query, c cursor, find func(context.Context, stet.Query) ([]found, error)) (heads []stet.Head, next string, err error) {
	all, err := find(ctx, q)
	if err != nil {
		return nil, "", err
	}
	order := func(a, b found) int {
		n := cmp.Or(strings.Compare(b.score, a.score), strings.Compare(a.member, b.member))
		if q.Oldest {
			return -n
		}
		return n
	}
	slices.SortFunc(all, order)
	from := found{score: c.score, member: c.member}
	page := walk.Page[stet.Head, found]{Most: q.Bound(), Look: len(all)}
	for _, f := range all {
		if !page.Add(f, f.head, f.ok && q.Matches(&f.head) && (q.After == "" || order(f, from) > 0)) {
			break
		}
	}
	return page.Rows, page.Next(func(f found) string { return cursor{c.shard, f.score, f.member}.String() }), nil
}

// tagged finds the records that may have a tag. It asks every shard, because a tag does not tell
// the shard of its record.
func (s *Store) tagged(ctx context.Context, q stet.Query) (all []found, err error) {
	place := placeOfTag(q.Tag)
	if place == "" {
		return nil, nil
	}
	lists, err := each(ctx, s, func(ctx context.Context, shard int) (some []found, err error) {
		some, _, err = s.heads(ctx, taggedScript, shard, place)
		return some, err
	})
	all = slices.Concat(lists...)
	for i := range all {
		all[i].score = strconv.FormatInt(all[i].head.CreatedAt.UnixMicro(), 10)
	}
	return all, err
}

// named finds the record of the scope and the key in a query.
func (s *Store) named(ctx context.Context, q stet.Query) ([]found, error) {
	r, err := s.Get(stet.WithMaxBody(ctx, 0), stet.ID{Scope: q.Scope, Key: q.Key})
	if err != nil {
		if errors.Is(err, stet.ErrNotFound) || errors.Is(err, stet.ErrCorrupt) { // which is left out
			err = nil
		}
		return nil, err
	}
	return []found{{member: string(r.Key), score: strconv.FormatInt(r.CreatedAt.UnixMicro(), 10), head: r.Head, ok: true}}, nil
}

// Count implements [stet.Counter]. A count by state alone is cheap. For any other filter the
// records are read, until q.Limit of them match.
func (s *Store) Count(ctx context.Context, q stet.Query) (n int, err error) {
	switch {
	case q.NewerThan > 0:
		return s.latest(ctx, q)
	case !q.ByState():
		return s.look(ctx, q)
	}
	counts, err := each(ctx, s, func(ctx context.Context, i int) (n int64, err error) {
		got, err := s.ask(ctx, countScript, s.whole(i), stateNumbers(q.States)...)
		n, _ = got.(int64)
		return n, err
	})
	if err != nil {
		return 0, wrap("count", err)
	}
	for _, k := range counts {
		n += int(k)
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

// latest counts among the latest records of each shard. It stops at the first record that is too
// old, since all that follow are older.
func (s *Store) latest(ctx context.Context, q stet.Query) (n int, err error) {
	const page = "100"
	enough := int64(cmp.Or(max(q.Limit, 0), stet.DefaultLimit))
	var counted atomic.Int64
	_, err = each(ctx, s, func(ctx context.Context, shard int) (none struct{}, err error) {
		score, member, old := "", "", false
		for more := "1"; more != "" && !old && counted.Load() < enough; {
			var all []found
			if all, more, err = s.heads(ctx, listScript, shard, page, score, member); err != nil || len(all) == 0 {
				break
			}
			for i := range all {
				h := &all[i].head
				score, member = all[i].score, all[i].member
				old = old || all[i].ok && !h.CreatedAt.After(h.AsOf.Add(-q.NewerThan))
				if all[i].ok && q.Matches(h) {
					counted.Add(1)
				}
			}
		}
		return none, err
	})
	if err != nil {
		return 0, wrap("count", err)
	}
	return int(counted.Load()), nil
}

// Find implements [stet.Finder]. It asks every shard, because a name does not tell the shard of its
// record.
func (s *Store) Find(ctx context.Context, scope stet.Scope, name string) (heads []stet.Head, err error) {
	if name == "" {
		return nil, nil
	}
	var of writer // with which the members of the scope begin
	if scope != "" {
		of.member(stet.ID{Scope: scope})
	}
	lists, err := each(ctx, s, func(ctx context.Context, shard int) (all []found, err error) {
		all, _, err = s.heads(ctx, namedScript, shard, strconv.Itoa(stet.DefaultLimit), name, string(of))
		return all, err
	})
	if err != nil {
		return nil, wrap("find", err)
	}
	for _, f := range slices.Concat(lists...) {
		if h := &f.head; f.ok && (h.DownstreamKey == name || h.DownstreamID == name) && (scope == "" || h.Scope == scope) {
			heads = append(heads, *h)
		}
	}
	return heads[:min(len(heads), stet.DefaultLimit)], nil
}
