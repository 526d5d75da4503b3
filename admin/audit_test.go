package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// entries reads the whole audit trail that a query selects, page by page.
func (d *desk) entries(query string) (all []operate.Entry) {
	d.Helper()
	for cursor := ""; ; {
		res, body := d.get("/api/v1/audit?" + query + "&cursor=" + url.QueryEscape(cursor))
		var page struct {
			Entries []operate.Entry `json:"entries"`
			Next    string          `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || res.StatusCode != 200 {
			d.Fatalf("%s: %d %s", query, res.StatusCode, body)
		}
		all = append(all, page.Entries...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// watched is a store whose history may refuse to be written, or be away when it is read.
type watched struct {
	*memstore.Store
	refuse, away error
	pages        atomic.Int64  // of the history that were asked for
	takes        time.Duration // each of them
}

func (s *watched) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	s.pages.Add(1)
	if s.takes > 0 && !rest.For(ctx, s.takes) {
		return nil, "", ctx.Err()
	}
	if s.away != nil {
		return nil, "", s.away
	}
	return s.Store.History(ctx, q)
}

func (s *watched) Append(ctx context.Context, c stet.Change) error {
	if s.refuse != nil {
		return s.refuse
	}
	return s.Store.Append(ctx, c)
}

func TestRevealIsAuditedFirst(t *testing.T) { // D02
	s := &watched{Store: memstore.New(memstore.Config{})}
	d := newDesk(t, admin.Config{Who: "kim@desk"}, s)
	d.put("t1", "secret-key", answered(201))
	tag := d.engine.Tag(stet.ID{Scope: "t1", Key: "secret-key"})
	for _, path := range []string{"/api/v1/keys/t1/secret-key", "/api/v1/keys/t1/" + tag, "/api/v1/keys/t1/none?reveal=1"} {
		d.get(path)
	}
	if got := d.entries(""); len(got) != 0 {
		t.Fatalf("nothing was revealed, and the trail has %+v", got)
	}
	d.doc("/api/v1/keys/t1/secret-key?reveal=1")
	d.doc("/api/v1/keys/t1/" + tag + "?reveal=1&reason=INC-4521")
	got := d.entries("")
	if len(got) != 2 {
		t.Fatalf("two reveals, and %d entries", len(got))
	}
	if got[0].Reason+got[1].Reason != "INC-4521" {
		t.Errorf("the reason is not in the trail: %+v", got)
	}
	for _, e := range got {
		if e.Action != "reveal" || e.Who != "kim@desk" || e.ID != tag || e.Scope != "t1" || e.From != "" || e.To != "" || e.At.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	if r, err := d.engine.Get(t.Context(), stet.ID{Scope: "t1", Key: "secret-key"}); err != nil || d.engine.Operator().Purge(t.Context(), r.ID, 0, stet.Note{Who: "w", Why: "y"}) != nil {
		t.Fatal(err)
	}
	if got := d.entries("id=" + tag); len(got) != 3 || got[2].Action != "reveal" {
		t.Errorf("after the record has gone the trail has %+v", got)
	}

	d.put("t1", "secret-key", answered(201))
	for _, refuse := range []error{errors.New("the disk is full"), stet.ErrUnsupported} {
		s.refuse = refuse
		res, body := d.get("/api/v1/keys/t1/secret-key?reveal=1")
		if res.StatusCode != 503 || !strings.Contains(body, "store-unavailable") || strings.Contains(body, "secret") || strings.Contains(body, tag) {
			t.Errorf("%v: %d %s", refuse, res.StatusCode, body)
		}
	}
	if strings.Contains(d.log.String(), "secret") {
		t.Errorf("the log: %s", d.log.String())
	}
}

func TestAuditIsFiltered(t *testing.T) { // D02
	d := newDesk(t, admin.Config{Tokens: only(admin.NewToken("all", "token-of-all", operate.Admin), scoped(admin.NewToken("one", "token-of-s", operate.Admin), "s"),
		scoped(admin.NewToken("two", "token-of-two", operate.Admin), "s", "x*"))}, nil)
	var first stet.ID
	for i := range 6 {
		id := d.unknown(fmt.Sprint("k", i))
		if i == 0 {
			first = id
		}
		if _, err := d.engine.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), d.engine, id), stet.Resolution{}, stet.Note{Who: []string{"ann", "bob"}[i%2], Why: "voided"}); err != nil {
			t.Fatal(err)
		}
	}
	audit := func(id stet.ID, n stet.Note) {
		if err := d.engine.Operator().Audit(t.Context(), id, n); err != nil {
			t.Fatal(err)
		}
	}
	audit(stet.ID{Scope: "other", Key: "k"}, stet.Note{Who: "ann", Action: "reveal"})
	audit(stet.ID{}, stet.Note{Who: "192.0.2.7", Action: "login-refused", Why: "the token is not known"})
	tag := d.engine.Tag(first)
	for token, wants := range map[string]map[string]int{
		"token-of-all": {"": 8, "action=reveal": 1, "action=reveal&limit=1": 1, "action=release": 6, "action=none": 0, "since=2001-01-01T00:00:00Z": 8,
			"until=2001-01-01T00:00:00Z": 0, "since=2901-01-01T00:00:00%2B01:00": 0, "since=2001-01-01T00:00:00Z&until=2901-01-01T00:00:00Z&action=reveal": 1, "who=ann": 4, "who=192.0.2.7": 1, "scope=s": 6, "scope=other": 1, "id=" + tag: 1, "scope=s&who=bob": 3, "who=ann&limit=1": 4, "who=an": 0, "id=" + tag + "&who=bob": 0},
		"token-of-s":   {"": 6, "who=192.0.2.7": 0, "scope=s": 6, "limit=2": 6},
		"token-of-two": {"": 6, "limit=1": 6},
	} {
		d.token = token
		for query, want := range wants {
			if got := d.entries(query); len(got) != want {
				t.Errorf("%s %s: %d entries, want %d: %+v", token, query, len(got), want, got)
			}
		}
	}
	d.token = "token-of-s"
	d.refused("/api/v1/audit?scope=other", 403, "forbidden")
	d.token = "token-of-all"
	if got := d.entries("who=192.0.2.7"); got[0].ID != "" || got[0].Scope != "" || got[0].Action != "login-refused" {
		t.Errorf("%+v", got[0])
	}
	if got := d.entries("id=" + tag); got[0].From != "unknown" || got[0].To != "retryable" || got[0].Action != "release" || got[0].ID != tag {
		t.Errorf("%+v", got[0])
	}
	for query, want := range map[string]string{"id=k_123": "id", "id=k": "id", "key=k": "key", "limit=x": "limit", "scope=a&scope=b": "scope"} {
		if res, body := d.get("/api/v1/audit?" + query); res.StatusCode != 400 || !strings.Contains(body, `"parameter":"`+want+`"`) {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
}

// A store that does not answer for a later page is not said to be a wrong cursor.
func TestAuditPageOfAStoreThatIsAway(t *testing.T) { // Y9
	s := &watched{Store: memstore.New(memstore.Config{})}
	d := newDesk(t, admin.Config{}, s)
	for i := range 3 {
		d.put("t1", stet.Key(fmt.Sprint("k", i)), answered(201))
		d.doc(fmt.Sprintf("/api/v1/keys/t1/k%d?reveal=1", i))
	}
	next := d.doc("/api/v1/audit?limit=1")["next_cursor"].(string)
	s.away = errors.New("it is away")
	d.refused("/api/v1/audit?limit=1&cursor="+url.QueryEscape(next), 503, "store-unavailable")
	s.away = nil
	if parameter := d.refused("/api/v1/audit?limit=1&cursor=nonsense", 400, "bad-parameter"); parameter != "cursor" {
		t.Errorf("a wrong cursor is the fault of %q", parameter)
	}
	d.doc("/api/v1/audit?limit=1&cursor=" + url.QueryEscape(next))
}

// One page for a token of several scopes reads a bounded part of what others have.
func TestAuditPageOfFewScopes(t *testing.T) { // Y10
	bound := admin.NewToken("tina", "tina-token", operate.Viewer)
	bound.Scopes = []string{"t1", "t2"}
	s := &watched{Store: memstore.New(memstore.Config{})}
	d := newDesk(t, admin.Config{Tokens: only(bound)}, s)
	for i := range 30_000 {
		if err := s.Append(t.Context(), stet.Change{ID: stet.ID{Scope: "other", Key: "k"}, Note: stet.Note{Who: "w", Action: "note", Why: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	d.token = "tina-token"
	page := d.doc("/api/v1/audit?limit=1000")
	if n := s.pages.Load(); n != 20 || len(page["entries"].([]any)) != 0 || page["next_cursor"] == "" {
		t.Errorf("%d pages of the store were read, and the next is %q", n, page["next_cursor"])
	}
}

// A page of the audit trail has an end, however slow the store is.
func TestAuditPageOfASlowStore(t *testing.T) { // Y10
	synctest.Test(t, func(t *testing.T) {
		bound := admin.NewToken("tina", "tina-token", operate.Viewer)
		bound.Scopes = []string{"t1", "t2"}
		s := &watched{Store: memstore.New(memstore.Config{}), takes: time.Second}
		e, err := stet.New(s, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if err := s.Append(t.Context(), stet.Change{ID: stet.ID{Scope: "other", Key: "k"}, Note: stet.Note{Who: "w", Action: "note", Why: fmt.Sprint(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		r := httptest.NewRequest("GET", "http://localhost/api/v1/audit?limit=20", nil)
		r.Header.Set("Authorization", "Bearer tina-token")
		w, began := httptest.NewRecorder(), time.Now()
		admin.New(e, admin.Config{Tokens: only(bound)}).ServeHTTP(w, r)
		if took := time.Since(began); w.Code != 503 || took != 15*time.Second {
			t.Errorf("%d after %s: %s", w.Code, took, w.Body)
		}
	})
}
