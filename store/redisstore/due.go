package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// position is a place in the order of due records, which is the same for all shards and states: by
// the microsecond, then by member.
type position struct {
	due    int64
	member string
}

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.due, o.due), strings.Compare(p.member, o.member))
}

// unit is the place of the position in an index.
func (p position) unit() int64 { return p.due / dueUnit }

func (p position) String() string {
	return makeCursor(ofDue, strconv.FormatInt(p.due, 10)+","+p.member)
}

// parsePosition reads a cursor. "" is before all due records.
func parsePosition(cursor string) (p position, err error) {
	if cursor == "" {
		return position{}, nil
	}
	text, err := openCursor(ofDue, cursor)
	due, member, whole := strings.Cut(text, ",")
	if err != nil || !whole {
		return p, errCursor
	}
	p.member = member
	if p.due, err = strconv.ParseInt(due, 10, 64); err != nil || p.due < 0 || p.due >= dueUnit*duePerState {
		return p, errCursor
	}
	return p, nil
}

// overdue is a head at its position.
type overdue struct {
	position
	head stet.Head
}

// dueShard is what a page has read of one shard: all records that are due and selected in units
// below next.
type dueShard struct {
	found  []overdue
	next   int64 // the unit to look from
	looks  int   // how many of each state the next look takes
	looked int   // how many heads it has read
	ended  bool  // there is nothing from next on
}

// most is about how many heads a page reads to find those that are selected. The rest is left for
// the next page.
const most = 10_000

// Due implements [stet.Store]. Records that fall due in the same microsecond are ordered by scope
// and key. A cursor contains a key, encoded but not encrypted.
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	after, err := parsePosition(q.After)
	if err != nil {
		return nil, "", err
	}
	n := q.Bound()
	shards := make([]dueShard, s.shards)
	behind := make([]int, s.shards) // those that may have more for this page
	for i := range shards {
		// Twice this shard's share of a page is seldom too little. If it is, the shard is asked
		// again.
		shards[i].next, shards[i].looks, behind[i] = after.unit(), min(n, 2*(n/s.shards+1))+1, i
	}
	var found []overdue
	for looked := 0; len(behind) > 0 && looked < most; {
		err := s.among(ctx, behind, func(ctx context.Context, i int) error {
			return s.lookForDue(ctx, i, &shards[i], &q, after)
		})
		if err != nil {
			return nil, "", wrap("due", err)
		}
		found, behind, looked = found[:0], behind[:0], 0
		for i := range shards {
			found, looked = append(found, shards[i].found...), looked+shards[i].looked
		}
		slices.SortFunc(found, func(a, b overdue) int { return a.compare(b.position) })
		for i := range shards {
			if sh := &shards[i]; !sh.ended && (len(found) < n || sh.next <= found[n-1].unit()) {
				behind = append(behind, i)
			}
		}
	}
	heads, next := page(shards, found, n)
	return heads, next, nil
}

// lookForDue reads on in a shard.
func (s *Store) lookForDue(ctx context.Context, shard int, sh *dueShard, q *stet.Query, after position) error {
	all, upto, err := s.heads(ctx, dueScript, shard,
		append([]string{strconv.Itoa(sh.looks), strconv.FormatInt(sh.next, 10)}, stateNumbers(q.States)...)...)
	if err != nil {
		return err
	}
	for i := range all {
		// A record that vanished may have left its name in an index. A new record of that name is
		// not due.
		if h := &all[i].head; all[i].ok && h.Over() && q.Matches(h) {
			if at := (position{h.DueAt.UnixMicro(), all[i].member}); at.compare(after) > 0 {
				sh.found = append(sh.found, overdue{at, *h})
			}
		}
	}
	sh.looked, sh.looks = sh.looked+len(all), min(2*sh.looks, stet.MaxLimit)
	if sh.ended = upto == ""; sh.ended {
		return nil
	}
	last, err := strconv.ParseInt(upto, 10, 64)
	if err != nil || last < sh.next {
		return errTorn
	}
	sh.next = last + 1
	return nil
}

// page takes up to n of the heads that were found, as far as every shard was read, and returns
// where the next page begins.
func page(shards []dueShard, found []overdue, n int) (heads []stet.Head, next string) {
	seen := position{due: dueUnit * duePerState}
	for i := range shards {
		if sh := &shards[i]; !sh.ended {
			seen.due = min(seen.due, sh.next*dueUnit)
			next = seen.String()
		}
	}
	for i := range found {
		if found[i].compare(seen) >= 0 {
			break
		}
		if len(heads) == n {
			return heads, found[i-1].String()
		}
		heads = append(heads, found[i].head)
	}
	return heads, next
}
