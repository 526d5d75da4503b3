package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
		_, err := decodeHeadAt(&f.head, []any{list[0], row[2]}, f.member)
		f.ok = err == nil
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
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, error) {
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
		return nil, fmt.Errorf("redisstore: due: %w", err)
	}
	slices.SortFunc(due, func(a, b stet.Head) int { return a.DueAt.Compare(b.DueAt) })
	return due[:min(n, len(due))], nil
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

// encodeEntry is what the history keeps of a change besides states and time.
func encodeEntry(h *stet.Head) string {
	var w writer
	w.number(int64(h.Attempt))
	w.text(h.Note.Who)
	w.text(h.Note.Why)
	w.text(h.Note.Evidence)
	return string(w)
}

// entry is a change with its name in its shard's stream.
type entry struct {
	stet.Change
	ms, seq uint64
	shard   int
}

// compare puts the newest first.
func (e *entry) compare(o *entry) int {
	return cmp.Or(o.At.Compare(e.At), cmp.Compare(o.ms, e.ms), cmp.Compare(o.seq, e.seq), cmp.Compare(o.shard, e.shard))
}

// History implements [stet.Historian]. The cursor names the last change shown in each shard it has begun.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	n := min(cmp.Or(max(q.Limit, 0), stet.DefaultLimit), stet.MaxLimit)
	from, err := s.historyCursor(q.After)
	if err != nil {
		return nil, "", err
	}
	var mu sync.Mutex
	var all []entry
	ask := func(ctx context.Context, shard int) error {
		got, err := s.stream(ctx, shard, from[shard], n+1, q.ID)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, got...)
		return err
	}
	if q.ID != (stet.ID{}) {
		shard := s.place(q.ID).shard
		for i := range s.shards {
			if s.shard(i) == shard {
				err = ask(ctx, i)
			}
		}
	} else {
		err = s.each(ctx, ask)
	}
	if err != nil {
		return nil, "", fmt.Errorf("redisstore: history: %w", err)
	}
	slices.SortFunc(all, func(a, b entry) int { return a.compare(&b) })
	for i := range all[:min(n, len(all))] {
		changes = append(changes, all[i].Change)
		from[all[i].shard] = fmt.Sprintf("%d-%d", all[i].ms, all[i].seq)
	}
	if len(all) > n {
		next = formatHistoryCursor(from)
	}
	return changes, next, nil
}

func formatHistoryCursor(from map[int]string) string {
	var parts []string
	for shard, id := range from {
		parts = append(parts, fmt.Sprintf("%d:%s", shard, id))
	}
	slices.Sort(parts)
	return base64.RawURLEncoding.EncodeToString([]byte("h" + strings.Join(parts, ",")))
}

func (s *Store) historyCursor(text string) (map[int]string, error) {
	from := map[int]string{}
	if text == "" {
		return from, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	body, ok := strings.CutPrefix(string(raw), "h")
	if err != nil || !ok {
		return nil, errCursor
	}
	for part := range strings.SplitSeq(body, ",") {
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

// stream reads up to n changes of one shard, newest first, below an entry; of one record where id is not empty.
func (s *Store) stream(ctx context.Context, shard int, below string, n int, id stet.ID) (all []entry, err error) {
	key := s.shard(shard) + ":history"
	end := "+"
	if below != "" {
		end = "(" + below
	}
	for len(all) < n {
		got, err := s.client.Do(ctx, key, []string{"XREVRANGE", key, end, "-", "COUNT", strconv.Itoa(n)})
		if err != nil {
			return nil, err
		}
		rows, _ := got[0].([]any)
		for _, row := range rows {
			e, name, ok := decodeEntry(row)
			if !ok {
				return nil, fmt.Errorf("%w: an entry of the history", stet.ErrCorrupt)
			}
			end = "(" + name
			if e.shard = shard; id == (stet.ID{}) || e.ID == id {
				all = append(all, e)
			}
		}
		if len(rows) < n {
			break
		}
	}
	return all[:min(n, len(all))], nil
}

func decodeEntry(row any) (e entry, name string, ok bool) {
	pair, _ := row.([]any)
	if len(pair) != 2 {
		return e, "", false
	}
	name, _ = pair[0].(string)
	fields, _ := pair[1].([]any)
	values := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		k, _ := fields[i].(string)
		values[k], _ = fields[i+1].(string)
	}
	e.ms, e.seq, ok = streamID(name)
	var valid bool
	if e.ID, valid = idOf(values["m"]); !ok || !valid {
		return e, "", false
	}
	from, err1 := strconv.Atoi(values["f"])
	to, err2 := strconv.Atoi(values["t"])
	us, err3 := strconv.ParseInt(values["a"], 10, 64)
	r := &reader{rest: values["n"]}
	e.From, e.To, e.At, e.Attempt = stet.State(from), stet.State(to), time.UnixMicro(us).UTC(), int(r.number())
	e.Note = stet.Note{Who: r.text(), Why: r.text(), Evidence: r.text()}
	return e, name, !r.bad && errors.Join(err1, err2, err3) == nil
}
