package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// encodeEntry encodes what the history keeps of a change besides states and time.
func encodeEntry(tag string, attempt int, n *stet.Note) string {
	return string(codec.AppendHead(nil, &stet.Head{Tag: tag, Attempt: attempt, Note: n}))
}

// entry is a change with its name in its shard's stream.
type entry struct {
	stet.Change
	ms, seq uint64
	values  map[string]string // as they are stored
}

func (e *entry) name() string { return fmt.Sprintf("%d-%d", e.ms, e.seq) }

// compare orders the newest first.
func (e *entry) compare(o *entry) int {
	return cmp.Or(o.At.Compare(e.At), cmp.Compare(o.ms, e.ms), cmp.Compare(o.seq, e.seq))
}

// stream is what a page has read of a shard's changes, the newest first.
type stream struct {
	shard int
	rest  []entry
	more  bool // the shard has others, which are older than all of these
}

// filteredLook is how many changes of each shard a page reads if the query has a filter.
const filteredLook = 500

// Append implements [stet.Historian]. The entry is kept in the shard of its record.
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	p := s.place(c.ID)
	p.also = []string{p.shard + ":history"}
	_, err := s.confirmed(ctx, appendScript, &p, appending, encodeEntry(c.Tag, c.Attempt, &c.Note))
	return wrap("append", err)
}

// History implements [stet.Historian]. The cursor names the last change read in each shard.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	from, err := s.historyCursor(q.After)
	if err != nil {
		return nil, "", err
	}
	n := q.Bound()
	look := n + 1
	if q.Tag != "" || q.Scope != "" || q.Who != "" || q.ID != (stet.ID{}) {
		look = max(look, filteredLook)
	}
	ask := func(ctx context.Context, shard int) (*stream, error) { return s.stream(ctx, shard, from[shard], look) }
	streams := make([]*stream, 1)
	if q.ID != (stet.ID{}) {
		streams[0], err = ask(ctx, slices.Index(s.names, s.place(q.ID).shard))
	} else {
		streams, err = each(ctx, s, ask)
	}
	if err != nil {
		return nil, "", wrap("history", err)
	}
	for {
		newest, more := newestOf(streams)
		switch {
		case newest == nil && !more:
			return changes, "", nil
		case newest == nil, len(changes) == n && q.Matches(&newest.rest[0].Change):
			return changes, formatHistoryCursor(from), nil
		}
		e := newest.rest[0]
		newest.rest, from[newest.shard] = newest.rest[1:], e.name()
		if q.Matches(&e.Change) {
			changes = append(changes, e.Change)
		}
	}
}

// newestOf returns the stream whose next change is the newest. It returns nil if there is none, or
// if a shard has further changes that may be newer.
func newestOf(all []*stream) (newest *stream, more bool) {
	for _, s := range all {
		switch {
		case len(s.rest) > 0:
			if newest == nil || s.rest[0].compare(&newest.rest[0]) < 0 {
				newest = s
			}
		case s.more:
			return nil, true
		}
	}
	return newest, false
}

func formatHistoryCursor(from map[int]string) string {
	var parts []string
	for shard, id := range from {
		parts = append(parts, fmt.Sprintf("%d:%s", shard, id))
	}
	slices.Sort(parts)
	return makeCursor(ofHistory, strings.Join(parts, ","))
}

func (s *Store) historyCursor(text string) (map[int]string, error) {
	from := map[int]string{}
	if text == "" {
		return from, nil
	}
	all, err := openCursor(ofHistory, text)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(all, ",") {
		shard, id, ok := strings.Cut(part, ":")
		i, err := strconv.Atoi(shard)
		if _, _, valid := streamID(id); !ok || err != nil || i < 0 || i >= s.shards || !valid {
			return nil, errCursor
		}
		from[i] = id
	}
	return from, nil
}

func streamID(id string) (ms, seq uint64, ok bool) {
	a, b, ok := strings.Cut(id, "-")
	ms, err1 := strconv.ParseUint(a, 10, 64)
	seq, err2 := strconv.ParseUint(b, 10, 64)
	return ms, seq, ok && err1 == nil && err2 == nil
}

// stream reads up to n changes of one shard, newest first, from before the entry below.
func (s *Store) stream(ctx context.Context, shard int, below string, n int) (*stream, error) {
	key, end := s.shard(shard)+":history", "+"
	if below != "" {
		end = "(" + below
	}
	all, err := s.entries(ctx, "XREVRANGE", key, end, "-", n)
	return &stream{shard: shard, rest: all, more: len(all) == n}, err
}

// entries reads up to n entries of a stream.
func (s *Store) entries(ctx context.Context, command, key, from, to string, n int) (all []entry, err error) {
	got, err := s.client.Do(ctx, key, []string{command, key, from, to, "COUNT", strconv.Itoa(n)}, nil)
	if err != nil {
		return nil, err
	}
	rows, _ := first(got).([]any)
	for _, row := range rows {
		e, ok := decodeEntry(row)
		if !ok {
			return nil, fmt.Errorf("%w: an entry of the history", stet.ErrCorrupt)
		}
		all = append(all, e)
	}
	return all, nil
}

func decodeEntry(row any) (e entry, ok bool) {
	pair, _ := row.([]any)
	if len(pair) != 2 {
		return e, false
	}
	name, _ := pair[0].(string)
	fields, _ := pair[1].([]any)
	values := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		k, _ := fields[i].(string)
		values[k], _ = fields[i+1].(string)
	}
	e.ms, e.seq, ok = streamID(name)
	var valid bool
	if e.ID, valid = codec.ID(values["m"]); !ok || !valid {
		return e, false
	}
	from, err1 := strconv.Atoi(values["f"])
	to, err2 := strconv.Atoi(values["t"])
	us, err3 := strconv.ParseInt(values["a"], 10, 64)
	var h stet.Head
	if codec.Head(values["n"], &h) != nil || h.Note == nil {
		return e, false
	}
	e.From, e.To, e.At = stet.State(from), stet.State(to), time.UnixMicro(us).UTC()
	e.Tag, e.Attempt, e.Note, e.values = h.Tag, h.Attempt, *h.Note, values
	return e, errors.Join(err1, err2, err3) == nil
}
