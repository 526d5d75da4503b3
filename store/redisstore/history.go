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

// encodeEntry is what the history keeps of a change besides states and time.
func encodeEntry(h *stet.Head) string {
	var w writer
	w.number(int64(h.Attempt))
	w.text(h.Note.Who)
	w.text(h.Note.Why)
	w.text(h.Note.Evidence)
	w.text(h.Note.Notice)
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
	n := q.Bound()
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
		got, err := s.client.Do(ctx, key, []string{"XREVRANGE", key, end, "-", "COUNT", strconv.Itoa(n)}, nil)
		if err != nil {
			return nil, err
		}
		rows, _ := first(got).([]any)
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
	e.Note = stet.Note{Who: r.text(), Why: r.text(), Evidence: r.text(), Notice: r.text()}
	return e, name, !r.bad && errors.Join(err1, err2, err3) == nil
}

// Append implements [stet.Historian].
func (s *Store) Append(ctx context.Context, c stet.Change) error { return errors.ErrUnsupported }
