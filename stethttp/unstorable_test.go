package stethttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// narrow is a store that takes no more than it says.
type narrow struct {
	stet.Store
	most stet.Sizes
}

func (n narrow) Sizes() stet.Sizes { return n.most }

func (n narrow) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	key, scope := len(r.Key), len(r.Scope)
	if over := func(n, most int) bool { return most > 0 && n > most }; over(key, n.most.Key) || over(scope, n.most.Scope) || over(key+scope, n.most.Names) || n.most.Body == 1 {
		return stet.Record{}, fmt.Errorf("%w: too long", stet.ErrRefused)
	}
	return n.Store.Create(ctx, r)
}

// A request of which the store can never keep a record is told what is too long, and not to come
// again; it does not run, also on a route that fails open (K08).
func TestWhatCanNeverBeStoredIsTheClientsError(t *testing.T) {
	long := strings.Repeat("k", 11)
	for name, c := range map[string]struct {
		most   stet.Sizes
		key    string
		status int
		code   stethttp.Code
		detail string
	}{
		"a key":                      {stet.Sizes{Key: 10}, long, 400, stethttp.InvalidKey, "has 11 bytes, which is longer than can be stored (10)"},
		"a key beside its scope":     {stet.Sizes{Names: 17}, long, 400, stethttp.InvalidKey, "has 11 bytes, which is longer than can be stored (10)"},
		"a scope":                    {stet.Sizes{Scope: 5}, "k", 401, stethttp.Unauthenticated, "in 7 bytes, which is longer than can be stored (5)"},
		"a scope beside a short key": {stet.Sizes{Names: 7}, "k", 401, stethttp.Unauthenticated, "in 7 bytes, which is longer than can be stored (6)"},
		"what is kept":               {stet.Sizes{Body: 1}, "k", 413, stethttp.PayloadTooLarge, "more than can be stored"},
	} {
		for _, open := range []bool{false, true} {
			r := newRig(t, stethttp.Config{FailOpen: open}, created)
			engine, err := stet.New(narrow{memstore.New(memstore.Config{}), c.most}, stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			r.handler = stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{FailOpen: open})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				r.runs.Add(1)
			}))
			resp := r.post(c.key, "{}")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || !strings.Contains(string(body), `"code":"`+string(c.code)+`"`) || !strings.Contains(string(body), c.detail) ||
				strings.Contains(string(body), `"retryable":true`) {
				t.Errorf("%s that is too long, with fail-open %v: %d %s", name, open, resp.StatusCode, body)
			}
			r.wantRuns(0)
		}
	}
}
