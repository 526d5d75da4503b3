package adminclient_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

const secret = "a-token-of-an-operator"

// desk is an admin handler with records of each kind, and a token for an operator.
func desk(t *testing.T) (*stet.Engine, http.Handler) {
	t.Helper()
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e, admin.New(e, admin.Config{Config: operate.Config{Jobs: operate.NewJobs(), Settle: stet.Never}, Tokens: []admin.Token{admin.NewToken("otto", secret, operate.Operator),
		admin.NewToken("vera", "viewer", operate.Viewer)}})
}

// put makes a record that is unknown, or completed.
func put(t *testing.T, e *stet.Engine, scope stet.Scope, key stet.Key, unknown bool) {
	t.Helper()
	d, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: scope, Key: key}, Route: "POST /pay",
		Subject: stet.Subject{Method: "POST", Path: "/pay"}})
	if err != nil || d.Verdict != stet.Execute {
		t.Fatal(d.Verdict, err)
	}
	if unknown {
		d.Claim.Unknown("panic")
	}
	if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
		t.Fatal(err)
	}
}

// ways are the ways to the same handler.
func ways(t *testing.T, h http.Handler, token string) map[string]*adminclient.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	secure := httptest.NewTLSServer(h)
	socket := filepath.Join(t.TempDir(), "s")
	on, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	local := &httptest.Server{Listener: on, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	local.Start()
	all := map[string]*adminclient.Client{"in process": adminclient.InProcess(h, elsewhere, token)}
	for way, c := range map[string]adminclient.Config{"URL": {Address: srv.URL + "/"},
		"socket": {Address: "unix:" + socket},
		"TLS":    {Address: secure.URL, TLS: secure.Client().Transport.(*http.Transport).TLSClientConfig}} {
		c.Token = token
		if all[way], err = adminclient.New(c); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
		srv.Close()
		secure.Close()
		local.Close()
	})
	return all
}

// Each way leads to the same answers: lists by page and whole, records, changes, problems.
func TestClient(t *testing.T) {
	e, h := desk(t)
	for i := range 5 {
		put(t, e, "acme", stet.Key(fmt.Sprint("k", i)), i%2 == 0)
	}
	put(t, e, "a/b", "..", false)
	for way, c := range ways(t, h, secret) {
		t.Run(way, func(t *testing.T) {
			ctx := t.Context()
			unknown := c.Keys(operate.RecordQuery{Filter: operate.Filter{State: "unknown", Scope: "acme", OlderThan: 0.5e-9},
				Sort: "oldest"})
			var seen []string
			for r, err := range unknown.All(ctx) {
				if err != nil || r.State != "unknown" || r.Cause != "panic" {
					t.Fatal(r, err)
				}
				seen = append(seen, r.ID)
			}
			rows, next, err := unknown.Page(ctx, "", 2)
			if err != nil || len(rows) != 2 || next == "" || rows[0].ID != seen[0] {
				t.Fatal(rows, next, err)
			}
			rest, next, err := unknown.Take(ctx, next, 100)
			if err != nil || len(seen) != 3 || len(rest) != 1 || next != "" || rest[0].ID != seen[2] {
				t.Fatal(seen, rest, next, err)
			}
			docs, _, err := unknown.Raw().Take(ctx, "", 1)
			if err != nil || len(docs) != 1 || !strings.Contains(string(docs[0]), seen[0]) {
				t.Fatal(docs, err)
			}
			byKey := operate.RecordQuery{Filter: operate.Filter{Key: "k1"}}
			if rows, _, err = c.Keys(byKey).Page(ctx, "", 0); err != nil || len(rows) != 1 {
				t.Errorf("by its key: %v, %v", rows, err)
			}
			dots, err := c.Reveal(ctx, operate.Name{Scope: "a/b", Key: ".."}, "why")
			if err != nil || dots.Scope != "a/b" || dots.Key != ".." || dots.Response.Status != 201 {
				t.Errorf("%v, %v", dots, err)
			}
			if same, err := c.Record(ctx, operate.Name{Key: dots.ID}); err != nil || same.ID != dots.ID || same.Key != "" {
				t.Errorf("by its id: %v, %v", same, err)
			}
			if _, err := c.Note(ctx, operate.Name{Key: dots.ID},
				operate.Remark{Text: way, Condition: operate.Condition{Version: operate.Version(fmt.Sprint(dots.Version)), Basis: operate.Basis(dots.Basis)}}); err != nil {
				t.Error(err)
			}
			var noted []string
			for entry, err := range c.Trail(operate.AuditQuery{ID: dots.ID}).All(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				noted = append(noted, entry.Reason)
			}
			if !slices.Contains(noted, way) {
				t.Errorf("the trail has %q", noted)
			}
			_, err = c.Release(ctx, operate.Name{Scope: "acme", Key: "none"},
				operate.Resolution{Change: operate.Change{Reason: "x"}})
			if p, ok := errors.AsType[*adminclient.Problem](err); !ok || p.Code != "not-found" || p.Status != 404 ||
				p.Detail == "" || !adminclient.Is(err, "not-found") {
				t.Errorf("a record that is not there: %v", err)
			}
			n, err := c.Preview(ctx, operate.Selection{Action: operate.ActRelease, Filter: adminclient.Parameters(byKey)})
			if err != nil || n.Matching != 0 { // it is completed
				t.Errorf("%v, %v", n, err)
			}
			_, err = c.Start(ctx, operate.Order{Selection: operate.Selection{Action: operate.ActRelease,
				Filter: operate.Parameters{"state": "unknown", "scope": "acme"}}, Expect: 7, Reason: "x"})
			if p, ok := errors.AsType[*adminclient.Problem](err); !ok || p.Code != "expect-mismatch" || *p.Matching != 3 {
				t.Errorf("%v", err)
			}
			err = c.Delete(ctx, operate.Name{Key: dots.ID}, operate.Change{Reason: "x"})
			if !adminclient.Is(err, "forbidden") {
				t.Errorf("an operator deletes: %v", err)
			}
			if said, ready, err := adminclient.Ready(ctx, c); said != "ready" || !ready || err != nil {
				t.Error(said, ready, err)
			}
			if _, _, err := c.Outbox(operate.MessageQuery{Dead: true}).Page(ctx, "", 0); !adminclient.Is(err, "no-outbox") {
				t.Error(err)
			}
			if _, err := c.Confirm(ctx, "1", operate.Settling{Reason: "x"}); !adminclient.Is(err, "no-outbox") {
				t.Error(err)
			}
			if jobs, err := c.RecentJobs(ctx); err != nil || len(jobs.Jobs) != 0 {
				t.Error(jobs, err)
			}
		})
	}
}

// What a deletion was decided on is sent with it.
func TestDeleteIsConditional(t *testing.T) {
	var sent string
	c := adminclient.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.URL.RawQuery
		w.Header().Set(admin.Marker, "1")
		w.WriteHeader(http.StatusNoContent)
	}), elsewhere, "")
	err := c.Delete(t.Context(), operate.Name{Key: "k"}, operate.Change{Reason: "x", Condition: operate.Condition{Version: "1", Basis: "2"}})
	if want := "if_basis=2&if_version=1&reason=x"; err != nil || sent != want {
		t.Errorf("%q, %v; want %q", sent, err, want)
	}
}

// A bulk job is stopped, and says of each record why it was not changed.
func TestJobs(t *testing.T) {
	e, _ := desk(t)
	jobs := operate.NewJobs()
	h := admin.New(e, admin.Config{Config: operate.Config{Jobs: jobs}, Tokens: []admin.Token{admin.NewToken("otto", secret, operate.Operator)}})
	put(t, e, "acme", "a", true)
	put(t, e, "acme", "b", true)
	for way, c := range ways(t, h, secret) {
		ctx := t.Context()
		unknown := operate.Selection{Action: operate.ActResolve, Filter: operate.Parameters{"state": "unknown"}}
		started, err := c.Start(ctx, operate.Order{Selection: unknown, Expect: 2, Reason: way})
		if err != nil {
			t.Fatal(way, err)
		}
		id := started.Job
		if j, err := c.StopJob(ctx, id, operate.Reason{Reason: "a doubt"}); err != nil || j.Job != id || j.State != operate.JobRunning {
			t.Errorf("%s: %v, %v", way, j, err)
		}
		if trail, _, err := c.Trail(operate.AuditQuery{Notice: id}).Page(ctx, "", 0); err != nil || len(trail) != 2 || trail[1].Job != id {
			t.Errorf("%s: the trail has %v, %v", way, trail, err)
		}
		if _, err := c.StopJob(ctx, id, operate.Reason{Reason: "a doubt"}); !adminclient.Is(err, "state-changed") {
			t.Errorf("%s: stopped twice: %v", way, err)
		}
		if all, err := c.Report(ctx, id); err != nil || len(all) != 0 {
			t.Errorf("%s: before its end: %v, %v", way, all, err)
		}
		other, err := c.Start(ctx, operate.Order{Selection: unknown, Expect: 2, Reason: way})
		if err != nil {
			t.Fatal(way, err)
		}
		running, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); _ = jobs.Run(running) }()
		for j := (operate.Job{State: operate.JobRunning}); j.State == operate.JobRunning && ctx.Err() == nil; {
			j, _ = c.Job(ctx, other.Job) // nothing is known of them
		}
		end()
		<-ended
		if j, err := c.Job(ctx, id); err != nil || j.State != operate.JobStopped || j.Left != 2 {
			t.Errorf("%s: %v, %v", way, j, err)
		}
		all, err := c.Report(ctx, other.Job)
		if err != nil || len(all) != 2 || all[1].Cause != "no-answer" || all[1].Scope != "acme" || all[0].ID == all[1].ID {
			t.Errorf("%s: %v, %v", way, all, err)
		}
		if _, err := c.Report(ctx, "bulk_none"); !adminclient.Is(err, "not-found") {
			t.Errorf("%s: %v", way, err)
		}
	}
}

// elsewhere is a request that did not come over loopback.
var elsewhere = &http.Request{Host: "localhost", RemoteAddr: "192.0.2.1:1"}

// In process the caller is the sender of the request that the client stands for: the role of the
// token or of its Authorization, its address, its Host, and what the context says of the
// connection.
func TestInProcessCaller(t *testing.T) {
	e, h := desk(t)
	put(t, e, "acme", "k", false)
	open := admin.New(e, admin.Config{})
	signed := &http.Request{Host: "localhost", RemoteAddr: "192.0.2.1:1",
		Header: http.Header{"Authorization": {"Bearer viewer"}}}
	socket := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "s", Net: "unix"})
	for _, tt := range []struct {
		name  string
		h     http.Handler
		from  *http.Request
		token string
		ctx   context.Context
		want  string // the code of the problem
	}{
		{"a viewer reveals", h, elsewhere, "viewer", t.Context(), "forbidden"},
		{"an operator reveals", h, elsewhere, secret, t.Context(), ""},
		{"without a token", h, nil, "", t.Context(), "unauthenticated"},
		{"the request's own token", h, signed, "", t.Context(), "forbidden"},
		{"a token instead of the request's", h, signed, secret, t.Context(), ""},
		{"over loopback", open, nil, "", t.Context(), ""},
		{"from elsewhere", open, elsewhere, "", t.Context(), "unauthenticated"},
		{"through a socket", open, &http.Request{Host: "localhost", RemoteAddr: "@"}, "", socket, ""},
		{"by another name", open, &http.Request{Host: "evil.example", RemoteAddr: "127.0.0.1:1"}, "", t.Context(),
			"forbidden"},
	} {
		_, err := adminclient.InProcess(tt.h, tt.from, tt.token).Reveal(tt.ctx, operate.Name{Scope: "acme", Key: "k"}, "")
		if tt.want == "" && err != nil || tt.want != "" && !adminclient.Is(err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	var over *tls.ConnectionState
	sees := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over = r.TLS
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := adminclient.InProcess(sees, &http.Request{TLS: &tls.ConnectionState{ServerName: "stet"}},
		"").Overview(t.Context())
	if p, ok := errors.AsType[*adminclient.Problem](err); !ok || p.RetryAfter != "7" || over == nil ||
		over.ServerName != "stet" {
		t.Errorf("over TLS: %v, %v", err, over)
	}
}

// A token is shown to the admin API alone, and each answer is looked at: another server may have
// taken its place.
func TestTokenIsShownToTheAPIAlone(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	answers := func(marked func(*http.Request) bool, status int, header http.Header, body string) *adminclient.Client {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			heard = append(heard, r.URL.Path+" "+r.Header.Get("Authorization"))
			mu.Unlock()
			if marked(r) {
				w.Header().Set(admin.Marker, "1")
			}
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(srv.Close)
		c, err := adminclient.New(adminclient.Config{Address: srv.URL, Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	never := func(*http.Request) bool { return false }
	for name, tt := range map[string]struct {
		client *adminclient.Client
		want   adminclient.StrangerError
	}{
		"another server": {answers(never, 200, nil, `{"keys":[],"next_cursor":""}`), adminclient.StrangerError{Status: 200}},
		"the clients' port": {answers(never, 503, http.Header{"Stet-Outcome": {"not-executed"}}, ""),
			adminclient.StrangerError{Status: 503, Gateway: true}},
		"its proxy": {answers(never, 404, http.Header{"Via": {"1.1 stet"}}, ""),
			adminclient.StrangerError{Status: 404, Gateway: true}},
		"a redirect": {answers(never, 302, http.Header{"Location": {"http://localhost/"}}, ""),
			adminclient.StrangerError{Status: 302}},
		"TLS": {answers(never, 400, nil, "Client sent an HTTP request to an HTTPS server."),
			adminclient.StrangerError{Status: 400, TLS: true}},
	} {
		_, err := tt.client.Overview(t.Context())
		if s, ok := errors.AsType[*adminclient.StrangerError](err); !ok || *s != tt.want || s.Error() == "" {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if text := strings.Join(heard, "\n"); strings.Contains(text, "Bearer") || strings.Contains(text, "status") {
		t.Errorf("they heard %s", text)
	}
	replaced := answers(func(r *http.Request) bool { return r.URL.Path == "/livez" }, 200, nil, `{}`)
	if _, err := replaced.Overview(t.Context()); !errors.As(err, new(*adminclient.StrangerError)) {
		t.Errorf("an answer without the marker is believed: %v", err)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	c, err := adminclient.New(adminclient.Config{Address: closed.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Overview(t.Context()); !errors.As(err, new(*adminclient.UnreachableError)) {
		t.Errorf("a closed port: %v", err)
	}
	for _, address := range []string{"", "127.0.0.1:8081", "ftp://x", "http://", "http://user:secret@host", "unix:"} {
		if _, err := adminclient.New(adminclient.Config{Address: address}); !errors.Is(err, adminclient.ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// A problem has what the API says of one.
func TestProblemHasTheMembersOfTheAPI(t *testing.T) {
	_, h := desk(t)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	one := 1
	full, err := json.Marshal(adminclient.Problem{Parameter: "p", Expect: &one, Matching: &one, Until: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(full, &members); err != nil {
		t.Fatal(err)
	}
	for name := range doc.Components.Schemas["Problem"].Properties {
		if _, ok := members[name]; !ok {
			t.Errorf("Problem has no %s", name)
		}
	}
}
