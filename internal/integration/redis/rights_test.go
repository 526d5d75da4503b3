package redis

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/goredisclient"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
)

// rights are those that docs/stores.md gives a user of its own.
func rights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`ACL SETUSER stet on '>PASSWORD' ([^\n]*)((\n {8}[^\n]*)*)`).FindString(string(text))
	if found == "" {
		t.Fatal("docs/stores.md does not say what rights a user needs")
	}
	return strings.Fields(found)[5:]
}

// as connects as a user with these rights.
func as(t *testing.T, a adapter, server *testserver.Server, rights ...string) redisstore.Client {
	t.Helper()
	grant(t, server, append([]string{"reset", "on", ">secret"}, rights...)...)
	if a.name == "rueidis" {
		c, err := rueidis.NewClient(rueidisclient.Options(rueidis.ClientOption{InitAddress: []string{server.Addr}, Username: "stet", Password: "secret"}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return rueidisclient.New(c)
	}
	c := goredis.NewClient(goredisclient.Options(&goredis.Options{Addr: server.Addr, Username: "stet", Password: "secret"}))
	t.Cleanup(func() { _ = c.Close() })
	return goredisclient.New(c)
}

func grant(t *testing.T, server *testserver.Server, rights ...string) {
	t.Helper()
	command := []any{"ACL", "SETUSER", "stet"}
	for _, r := range rights {
		command = append(command, r)
	}
	if err := lookInto(t, server.Addr).Do(t.Context(), command...).Err(); err != nil {
		t.Fatal(err)
	}
}

// The rights that the documentation lists are enough for all that the store does, and no command
// among them can be left out: Open says which one is missing (S23).
func TestRights(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) { testRights(t, a) })
	}
}

func testRights(t *testing.T, a adapter) {
	t.Helper()
	server := testserver.NewRedis(t, "--appendonly", "yes")
	all := rights(t)
	s, err := redisstore.Open(t.Context(), as(t, a, server, all...), redisstore.Config{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := usable.Prove(t.Context(), s, true); err != nil {
		t.Fatal(err)
	}
	everyVerb(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	optional := []string{"+publish", "+subscribe", "+wait", "+ping", "+hello", "+client", "+select", "+xrange", "+xdel", "+rename"} // see the page
	for _, right := range all {
		if !strings.HasPrefix(right, "+") || slices.Contains(optional, right) {
			continue
		}
		t.Run(right, func(t *testing.T) {
			left := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == right })
			_, err := redisstore.Open(t.Context(), as(t, a, server, left...), redisstore.Config{Shards: 2})
			if err == nil || !strings.Contains(err.Error(), strings.Trim(right, "+")) && !strings.Contains(err.Error(), right) {
				t.Errorf("Open: %v", err)
			}
		})
	}
	if _, err := redisstore.Open(t.Context(), as(t, a, server, "+@all", "~other:*"), redisstore.Config{Shards: 2}); err == nil || !strings.Contains(err.Error(), "docs/stores.md") {
		t.Errorf("a user without these keys: %v", err)
	}
	server.Kill(t)
}

// everyVerb does what a gateway does besides the proof.
func everyVerb(t *testing.T, s *redisstore.Store) {
	t.Helper()
	r := sample("k")
	r.DownstreamKey, r.DownstreamID = "name", "ch_1"
	made, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	h, b := completed(made, "done")
	h.DownstreamID = "ch_2"
	if h, err = s.Replace(t.Context(), made.Version, h, b); err != nil {
		t.Fatal(err)
	}
	_, _, due := s.Due(t.Context(), stet.Query{})
	_, _, list := s.List(t.Context(), stet.Query{})
	_, _, oldest := s.List(t.Context(), stet.Query{Oldest: true})
	_, _, tagged := s.List(t.Context(), stet.Query{Tag: h.Tag})
	_, count := s.Count(t.Context(), stet.Query{})
	found, find := s.Find(t.Context(), "", "ch_2")
	_, _, history := s.History(t.Context(), stet.HistoryQuery{})
	note := s.Append(t.Context(), stet.Change{ID: h.ID, Note: stet.Note{Who: "ann", Action: "show"}})
	erased, erase := s.Erase(t.Context(), stet.HistoryQuery{ID: h.ID})
	_, trim := s.Trim(t.Context(), 0, 10)
	if erased == 0 {
		t.Error("nothing was erased")
	}
	if err := errors.Join(due, list, oldest, tagged, count, find, history, note, erase, trim, s.Check(t.Context())); err != nil || len(found) != 1 {
		t.Fatalf("%d found, %v", len(found), err)
	}
	if err := s.Delete(t.Context(), h.ID, h.Version); err != nil {
		t.Fatal(err)
	}
}

// A user who may not write the history changes no record, and is told the mend (S22).
func TestNoChangeWithoutItsEntry(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) { testNoChangeWithoutItsEntry(t, a) })
	}
}

func testNoChangeWithoutItsEntry(t *testing.T, a adapter) {
	t.Helper()
	server := testserver.NewRedis(t)
	s := open(t, as(t, a, server, rights(t)...), redisstore.Config{Shards: 1})
	made, err := s.Create(t.Context(), sample("k"))
	if err != nil {
		t.Fatal(err)
	}
	grant(t, server, "-xadd")
	h := made.Head
	h.Version, h.State, h.DownstreamID, h.Note = draw(), stet.Unknown, "ch_1", &stet.Note{Who: "ann", Action: "release"}
	if _, err := s.Replace(t.Context(), made.Version, h, nil); err == nil || !strings.Contains(err.Error(), "docs/stores.md lists the rights") {
		t.Errorf("Replace: %v", err)
	}
	if got, err := s.Get(t.Context(), h.ID); err != nil || got.Version != made.Version || got.State != stet.Running {
		t.Errorf("the record is %+v, %v", got.Head, err)
	}
	if keys := lookInto(t, server.Addr).keys("*:name:*"); len(keys) > 0 {
		t.Errorf("it left %q", keys)
	}
	if err := usable.Prove(t.Context(), s, true); err == nil || !strings.Contains(err.Error(), "docs/stores.md lists the rights") {
		t.Errorf("Prove: %v", err)
	}
}

// A server that does not tell its settings is refused, unless a person states that its service
// keeps what it acknowledges; that is said, and covers no eviction (S19).
func TestDurableByTheService(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) { testDurableByTheService(t, a) })
	}
}

func testDurableByTheService(t *testing.T, a adapter) {
	t.Helper()
	server := testserver.NewRedis(t, "--appendonly", "yes")
	defer server.Kill(t) // while it writes its first append-only file
	silent := slices.DeleteFunc(rights(t), func(r string) bool { return r == "+config|get" })
	if _, err := redisstore.Open(t.Context(), as(t, a, server, silent...), redisstore.Config{}); !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), "append-only file") {
		t.Errorf("when it writes its file is not known: %v", err)
	}
	silent = slices.DeleteFunc(silent, func(r string) bool { return r == "+info" })
	client := as(t, a, server, silent...)
	if _, err := redisstore.Open(t.Context(), client, redisstore.Config{}); !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), "?durable=service") ||
		!strings.Contains(err.Error(), "+config|get") {
		t.Errorf("without a statement: %v", err)
	}
	var said []string
	s, err := redisstore.Open(t.Context(), client, redisstore.Config{DurableByService: true, Warn: func(text string) { said = append(said, text) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "durable=service") {
		t.Errorf("warnings: %q", said)
	}
	configure(t, server.Addr, "maxmemory-policy", "allkeys-lru")
	if _, err := redisstore.Open(t.Context(), single(t, server.Addr), redisstore.Config{DurableByService: true}); !errors.Is(err, stet.ErrVolatile) {
		t.Errorf("one that evicts: %v", err)
	}
}

// Two applications share a server, each under a name of its own, and nothing is outside of it
// (S20).
func TestPrefixesShareNothing(t *testing.T) {
	server := testserver.NewRedis(t)
	var ids []string
	for _, prefix := range []string{"shop", "shop-2"} {
		s, err := redisstore.Open(t.Context(), single(t, server.Addr), redisstore.Config{Prefix: prefix, AllowVolatile: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		everyVerb(t, s)
		if _, err := s.Create(t.Context(), sample("same")); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
		now, _, err := s.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, now.ID)
	}
	if ids[0] == ids[1] {
		t.Error("they have one identity")
	}
	for _, key := range lookInto(t, server.Addr).keys("*") {
		if name := strings.TrimPrefix(key, "{"); !strings.HasPrefix(name, "shop:") && !strings.HasPrefix(name, "shop-2:") {
			t.Errorf("%q has no prefix", key)
		}
	}
}
