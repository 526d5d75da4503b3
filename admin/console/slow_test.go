package console_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// slowStore is a store whose lists take as long as is said.
type slowStore struct {
	*memstore.Store
	takes atomic.Int64 // in nanoseconds
}

func (s *slowStore) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return s.Store.List(ctx, q)
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// Beside a store that takes 5 s an answer, the frame of each page, the overview and the list of
// unknown ones are there within 300 ms: as they were read last, with the time of that, or with "?".
func TestPagesDoNotWaitForTheStore(t *testing.T) { // O08
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: memstore.New(memstore.Config{})}
		s.takes.Store(int64(5 * time.Second))
		e, err := stet.New(s, stet.Config{Pepper: []byte("pepper"), StoreTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		shop := &shop{TB: t, engine: e, api: admin.New(e, admin.Config{Config: operate.Config{Title: "here"},
			Tokens: []admin.Token{admin.NewToken("vera", "viewer-token", operate.Viewer), admin.NewToken("otto", "operator-token", operate.Operator)}})}
		shop.put("lost", func(c *stet.Claim) stet.Outcome { c.Unknown("panic"); return stet.Outcome{} })
		v := visit(t, shop.api, console.Config{})
		v.signIn("operator-token")
		at := func(path string, want ...string) {
			t.Helper()
			began := time.Now()
			page := v.page(path)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s took %s", path, took)
			}
			says(t, path, page, want...)
		}
		const asked, none = `<span id="n-unknown" class="n n-unknown">?</span>`, "Nothing is unknown"
		at("/", asked, "are not read yet", "!Nothing needs you")
		at("/unknown", asked, "Not read yet", "!"+none)
		at("/find", asked, "unknown keys: not read yet")
		time.Sleep(6 * time.Second) // it is read meanwhile
		at("/", `class="n n-unknown">1</span>`, "!are not read yet")
		at("/unknown", `data-incident="`, "!Not read yet")
		s.takes.Store(int64(9 * time.Second))
		time.Sleep(time.Minute)
		at("/", `class="n n-unknown">1</span>`, "unknown keys: as of ")
		at("/unknown", `data-incident="`, "unknown keys: as of ")
		says(t, "after a change", v.change("/keys/"+shop.id("lost"), "/note", "note"), asked)
		time.Sleep(time.Minute)
	})
}

// change sends the form of a page whose one field is typed into, and returns the page that follows.
func (v *visitor) change(at, verb, field string) string {
	v.t.Helper()
	res, _ := v.submit(v.page(at), at+verb, map[string][]string{field: {"x"}})
	return v.page(res.Header.Get("Location"))
}
