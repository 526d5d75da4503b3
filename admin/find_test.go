package admin_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

type found struct {
	Found   []operate.Found
	More    bool
	Skipped []string
}

// A record is found by every name that it has somewhere, over scopes.
func TestFind(t *testing.T) {
	one := admin.NewToken("one", "one-token", operate.Operator)
	one.Scopes = []string{"t1"}
	many := admin.NewToken("many", "many-token", operate.Operator)
	many.Scopes = []string{"t*"}
	d := newDesk(t, admin.Config{Tokens: append(tokens(), one, many)}, nil)
	const trace = "0af7651916cd43dd8448eb211c80319c" // of what put makes
	d.put("t1", "order-1", func(c *stet.Claim) stet.Outcome {
		if err := c.Downstream(t.Context(), "pay-1", "ch_1"); err != nil {
			t.Fatal(err)
		}
		return unknown(c)
	})
	d.put("t2", "order-1", answered(201))
	d.put("default", "order-2", nil)
	id := func(scope stet.Scope, key stet.Key) string { return d.engine.Tag(stet.ID{Scope: scope, Key: key}) }
	first, second, third := id("t1", "order-1"), id("t2", "order-1"), id("default", "order-2")
	for _, c := range []struct{ token, query, want, skipped string }{
		{"operator-token", "q=order-1", "key " + first + ", key " + second, ""}, // what is unknown comes first
		{"operator-token", "q=order-1&scope=t2", "key " + second, ""},
		{"operator-token", "q=+order-2+", "key " + third, ""},
		{"operator-token", "q=" + second, "id " + second, ""},
		{"operator-token", "q=pay-1", "downstream-key " + first, ""},
		{"operator-token", "q=ch_1", "provider-id " + first, ""},
		{"operator-token", "q=ch_1&scope=t2", "", ""},
		{"operator-token", "q=" + trace, "trace " + first + ", trace " + third + ", trace " + second, ""},
		{"operator-token", "q=nothing", "", ""},
		{"one-token", "q=order-1", "key " + first, ""},
		{"one-token", "q=" + second, "", ""},
		{"many-token", "q=order-1", "key " + first + ", key " + second, ""},
		{"many-token", "q=order-2", "", ""},
		{"viewer-token", "q=order-1", "", "key,downstream-key,provider-id"},
		{"viewer-token", "q=ch_1", "", "key,downstream-key,provider-id"},
		{"viewer-token", "q=" + first, "id " + first, "key,downstream-key,provider-id"},
	} {
		d.token = c.token
		_, text := d.get("/api/v1/find?" + c.query)
		var got found
		decode(t, text, &got)
		var by []string
		for _, f := range got.Found {
			by = append(by, f.By+" "+f.Key.ID)
			if f.Key.Key != "" || f.Key.Outlook == nil {
				t.Errorf("%+v", f)
			}
		}
		if have := strings.Join(by, ", "); have != c.want || strings.Join(got.Skipped, ",") != c.skipped || got.More || got.Found == nil {
			t.Errorf("%s, %s: %s, want %s: %s", c.token, c.query, have, c.want, text)
		}
		if strings.Contains(text, "order-") || strings.Contains(text, "ch_1") {
			t.Errorf("it shows a name: %s", text)
		}
	}
	d.token = "operator-token"
	_, text := d.get("/api/v1/find?q=order-2&quick=1") // without a walk
	var got found
	if decode(t, text, &got); len(got.Found) != 1 || got.Found[0].Key.ID != third || !got.More {
		t.Errorf("%s", text)
	}
	for query, want := range map[string]string{"": "q", "?q=": "q", "?q=%20": "q", "?q=" + strings.Repeat("x", 1025): "q", "?q=a&q=b": "q", "?q=a&state=unknown": "state"} {
		if got := d.refused("/api/v1/find"+query, 400, "bad-parameter"); got != want {
			t.Errorf("%s: %q is blamed", query, got)
		}
	}
	d.token = "one-token"
	d.refused("/api/v1/find?q=a&scope=t2", 403, "forbidden")
}

// plain is a store without abilities.
type plain struct{ stet.Store }

// What a store cannot look for is said, and does not read as if there were nothing.
func TestFindSaysWhatItCannot(t *testing.T) {
	d := newDesk(t, admin.Config{}, plain{memstore.New(memstore.Config{})})
	d.put("default", "k", answered(200))
	_, text := d.get("/api/v1/find?q=k")
	var got found
	if decode(t, text, &got); len(got.Found) != 1 || strings.Join(got.Skipped, " ") != "downstream-key provider-id key" {
		t.Errorf("%s", text)
	}
}

// A search finds so many and says that there are more; Stet's own records are not among them.
func TestFindIsBounded(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	d.put(stet.OwnScope, "same", answered(200))
	for i := range 150 {
		d.put(stet.Scope(fmt.Sprint("t", i)), "same", answered(200))
	}
	_, text := d.get("/api/v1/find?q=" + url.QueryEscape("same"))
	var got found
	if decode(t, text, &got); len(got.Found) != 100 || !got.More {
		t.Errorf("%d, more %v", len(got.Found), got.More)
	}
	_, text = d.get("/api/v1/find?q=same&scope=" + url.QueryEscape(string(stet.OwnScope)))
	var own found
	decode(t, text, &own)
	for _, f := range append(got.Found, own.Found...) {
		if f.Key.Scope == string(stet.OwnScope) {
			t.Error("a record of Stet's own")
		}
	}
}

func decode(t *testing.T, text string, doc any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), doc); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
