package admin_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/outbox"
)

// shelf is an outbox of some messages; what is done with them it writes down.
type shelf struct {
	mu   sync.Mutex
	all  []outbox.Stored
	done []string
	err  error // of the database
}

func newShelf() *shelf {
	s := &shelf{}
	for i, state := range []outbox.State{outbox.Pending, outbox.Dead, outbox.Unknown, outbox.Dead} {
		m := outbox.Stored{ID: int64(i + 1), Version: 1<<62 + int64(i), State: state, Attempt: i}
		m.Topic, m.Payload, m.Meta = "receipts", []byte("secret-payload"), map[string]string{"m": "secret-meta"}
		m.Record = outbox.Record{ID: stet.ID{Scope: stet.Scope([]string{"acme", "shop"}[i%2]), Key: "secret-key"}, Life: time.Unix(1, 0)}
		s.all = append(s.all, m)
	}
	return s
}

func (s *shelf) List(_ context.Context, q outbox.Query) (found []outbox.Stored, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		dead := m.State == outbox.Dead || m.State == outbox.Unknown
		if (q.State == "" || q.State == m.State) && (!q.Dead || dead) && (q.Topic == "" || q.Topic == m.Topic) && m.ID > q.After && len(found) < q.Limit {
			found = append(found, m)
		}
	}
	return found, s.err
}

func (s *shelf) Show(_ context.Context, id int64) (outbox.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(m outbox.Stored) bool { return m.ID == id })
	if i < 0 || s.err != nil {
		return outbox.Stored{}, cmp.Or(s.err, stet.ErrNotFound)
	}
	return s.all[i], nil
}

func (s *shelf) Counts(context.Context) (map[outbox.State]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[outbox.State]int64{}
	for i := range s.all {
		n[s.all[i].State]++
	}
	return n, s.err
}

func (s *shelf) settle(seen outbox.Seen, to outbox.State, who, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := seen.ID
	m := &s.all[id-1]
	if m.Version != seen.Version {
		return stet.ErrStale
	}
	if m.State != outbox.Dead && m.State != outbox.Unknown {
		return fmt.Errorf("%w: it was %s", stet.ErrState, m.State)
	}
	m.State, m.Version = to, m.Version-10
	s.done = append(s.done, fmt.Sprintf("%d %s by %s: %s", id, to, who, why))
	return nil
}

func (s *shelf) Retry(_ context.Context, m outbox.Seen, who, why string) error {
	return s.settle(m, outbox.Pending, who, why)
}

func (s *shelf) Discard(_ context.Context, m outbox.Seen, who, why string) error {
	return s.settle(m, outbox.Discarded, who, why)
}

func (s *shelf) Confirm(_ context.Context, m outbox.Seen, who, why string) error {
	return s.settle(m, outbox.Done, who, why)
}

// ids reads a page of messages.
func (d *desk) ids(path string) (ids []int64, next string) {
	d.Helper()
	res, body := d.get(path)
	var page struct {
		Messages []operate.Message `json:"messages"`
		Next     string            `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || res.StatusCode != 200 || strings.Contains(body, "secret") {
		d.Fatalf("%s: %d %s %v", path, res.StatusCode, body, err)
	}
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	return ids, page.Next
}

func TestOutboxIsListedAndSettled(t *testing.T) { // D06, D02
	s := newShelf()
	d := newDesk(t, admin.Config{Config: operate.Config{Outbox: s}, Tokens: tokens()}, nil)
	d.token = "viewer-token"
	for query, want := range map[string][]int64{"": {1, 2, 3, 4}, "?dead=1": {2, 3, 4}, "?state=dead": {2, 4}, "?topic=none": nil, "?cursor=2": {3, 4}, "?limit=4": {1, 2, 3, 4}} {
		if got, next := d.ids("/api/v1/outbox" + query); !slices.Equal(got, want) || next != "" {
			t.Errorf("%s: %v, %q", query, got, next)
		}
	}
	if got, next := d.ids("/api/v1/outbox?limit=2&dead=1"); !slices.Equal(got, []int64{2, 3}) || next != "3" {
		t.Errorf("a page: %v, %q", got, next)
	}
	for query, want := range map[string]string{"?state=lost": "state", "?dead=no": "dead", "?cursor=x": "cursor", "?limit=0": "limit", "?limit=1001": "limit", "?stat=dead": "stat"} {
		if res, body := d.get("/api/v1/outbox" + query); res.StatusCode != 400 || !strings.Contains(body, `"parameter":"`+want+`"`) {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
	if doc := d.doc("/api/v1/outbox/2"); doc["record"] != d.engine.Tag(s.all[1].Record.ID) || doc["payload_bytes"] != 14.0 || doc["payload_b64"] != nil || doc["key"] != nil {
		t.Errorf("%v", doc)
	}
	if status, _ := d.change("POST", "/api/v1/outbox/2/retry", `{"reason":"x"}`); status != 403 {
		t.Errorf("a viewer retries: %d", status)
	}
	d.refused("/api/v1/outbox/2?reveal=1", 403, "forbidden")

	d.token = "operator-token"
	for name, c := range map[string]struct {
		path, body string
		status     int
		code       string
	}{
		"no reason":     {"2/retry", `{}`, 400, "reason-required"},
		"blank":         {"2/discard", `{"reason":" \t\n"}`, 400, "reason-required"},          // D10
		"seen before":   {"2/retry", `{"reason":"x","if_version":"7"}`, 409, "state-changed"}, // K06
		"no version":    {"2/retry", `{"reason":"x","if_version":"x"}`, 400, "bad-parameter"},
		"pending":       {"1/retry", `{"reason":"x"}`, 409, "state-changed"},
		"no message":    {"17/retry", `{"reason":"x"}`, 404, "not-found"},
		"no number":     {"x/retry", `{"reason":"x"}`, 404, "not-found"},
		"more than one": {"2/retry", `{"reason":"x","reasons":"y"}`, 400, "bad-parameter"},
	} {
		if status, body := d.change("POST", "/api/v1/outbox/"+c.path, c.body); status != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body := d.change("POST", "/api/v1/outbox/2/retry", `{"reason":"funds","if_version":"`+strconv.FormatInt(1<<62+1, 10)+`"}`); status != 200 || !strings.Contains(body, `"state":"pending"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := d.change("POST", "/api/v1/outbox/3/discard", `{"reason":"sent by hand"}`); status != 200 || !strings.Contains(body, `"state":"discarded"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := d.change("POST", "/api/v1/outbox/4/confirm", `{"reason":"the provider has it"}`); status != 200 || !strings.Contains(body, `"state":"done"`) {
		t.Errorf("%d %s", status, body)
	}
	if want := []string{"2 pending by otto: funds", "3 discarded by otto: sent by hand", "4 done by otto: the provider has it"}; !slices.Equal(s.done, want) {
		t.Errorf("done is %q", s.done)
	}
	doc := d.doc("/api/v1/outbox/4?reveal=1")
	if meta, _ := doc["meta"].(map[string]any); doc["key"] != "secret-key" || doc["payload_b64"] != "c2VjcmV0LXBheWxvYWQ=" || meta["m"] != "secret-meta" {
		t.Errorf("%v", doc)
	}
	if got := d.entries(""); len(got) != 1 || got[0].Action != "reveal" || got[0].Who != "otto" || got[0].Evidence != "message 4 of topic receipts" || got[0].Scope != "shop" {
		t.Errorf("%+v", got)
	}
	s.err = errors.New("the database is gone")
	for _, path := range []string{"/api/v1/outbox", "/api/v1/outbox/2"} {
		d.refused(path, 503, "store-unavailable")
	}
}

func TestOutboxOfOtherScopes(t *testing.T) { // D12
	s := newShelf()
	d := newDesk(t, admin.Config{Config: operate.Config{Outbox: s}, Tokens: only(scoped(admin.NewToken("one", "token-of-acme", operate.Admin), "acme"))}, nil)
	d.token = "token-of-acme"
	if got, _ := d.ids("/api/v1/outbox"); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("%v", got)
	}
	_, none := d.get("/api/v1/outbox/17")
	for _, path := range []string{"/api/v1/outbox/2", "/api/v1/outbox/2?reveal=1"} {
		if res, body := d.get(path); res.StatusCode != 404 || body != none {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	if status, body := d.change("POST", "/api/v1/outbox/2/retry", `{"reason":"x"}`); status != 404 || body != none || len(s.done) > 0 {
		t.Errorf("%d %s %q", status, body, s.done)
	}
}

func TestNoOutbox(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	d.refused("/api/v1/outbox", 404, "no-outbox")
	d.refused("/api/v1/outbox/1", 404, "no-outbox")
	if status, body := d.change("POST", "/api/v1/outbox/1/retry", `{"reason":"x"}`); status != 404 || !strings.Contains(body, "no-outbox") {
		t.Errorf("%d %s", status, body)
	}
}
