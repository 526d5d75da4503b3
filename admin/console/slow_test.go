package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
		console.SetPatience(v.h, console.Patience)
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
		frame, took, page := v.watch("/keys/" + shop.id("lost"))
		if says(t, "the frame", frame, `id="wait"`, "The store takes its time", `<a href="/unknown"`, "!"+shop.id("lost"), "!</main>"); took > time.Second {
			t.Errorf("the frame took %s", took)
		}
		says(t, "the page that follows", page, `id="main"`, "It is not known whether it happened.", "</html>")
		if n := strings.Count(page, "<main") - strings.Count(page, "</main>"); n != 0 || strings.Count(page, `id="main"`) != 1 {
			t.Errorf("the two parts are no page: %s", page)
		}
		if frame, _, page := v.watch("/keys/k_0000000000000000"); frame == "" || !strings.Contains(page, "There is no such key") {
			t.Errorf("no such key: %s", page)
		}
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

// timed is an answer of which it is known what of it was sent first, and when.
type timed struct {
	*httptest.ResponseRecorder
	began time.Time
	first string
	took  time.Duration
}

func (w *timed) Flush() {
	w.ResponseRecorder.Flush()
	w.first, w.took = w.Body.String(), time.Since(w.began)
}

// watch returns what was sent first of a page, when, and the page.
func (v *visitor) watch(at string) (first string, took time.Duration, page string) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+at, nil)
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := &timed{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
	v.h.ServeHTTP(w, r)
	return w.first, w.took, w.Body.String()
}

// A panic while a page is drawn is its request's own.
func TestPanicOfAPage(t *testing.T) {
	v := as(t, newFake(), "viewer")
	v.h = console.New(panics{doorOf(newFake())}, console.Config{})
	defer func() {
		if recover() == nil {
			t.Error("net/http does not hear of it")
		}
	}()
	v.get("/keys")
}

// panics is a door whose lists panic.
type panics struct{ console.Door }

func (d panics) Enter(r *http.Request, token string) (admin.API, func(), error) {
	api, leave, err := d.Door.Enter(r, token)
	return panicking{api}, leave, err
}

// An export has all entries, however many there are, and one that cannot be read to its end breaks
// off: it must not look whole.
func TestExportIsWhole(t *testing.T) { // Y13
	v := as(t, newFake(), "viewer")
	trail := &trails{Door: doorOf(newFake()), pages: 120}
	v.h = console.New(trail, console.Config{})
	if res, lines := v.get("/audit/export"); res.StatusCode != 200 || strings.Count(lines, "\n") != 120_000 {
		t.Errorf("%d, %d lines", res.StatusCode, strings.Count(lines, "\n"))
	}
	trail.pages = -3
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the download looks whole")
		}
	}()
	v.get("/audit/export")
}

// trails is a door to a trail of so many pages of 1,000 entries; if they are negative, the page
// after them cannot be read.
type trails struct {
	console.Door
	pages int
}

func (d *trails) Enter(r *http.Request, token string) (admin.API, func(), error) {
	api, leave, err := d.Door.Enter(r, token)
	return &longTrail{api, d.pages, 0}, leave, err
}

type longTrail struct {
	admin.API
	pages, read int
}

func (l *longTrail) Audit(context.Context, operate.AuditQuery) (operate.EntryList, error) {
	if l.read++; l.pages < 0 && l.read > -l.pages {
		return operate.EntryList{}, operate.ProblemOf(context.DeadlineExceeded)
	}
	list := operate.EntryList{Entries: make([]operate.Entry, 1000)}
	if l.read != l.pages {
		list.NextCursor = fmt.Sprint(l.read)
	}
	return list, nil
}

type panicking struct{ admin.API }

func (panicking) Records(context.Context, operate.RecordQuery) (operate.RecordList, error) {
	panic("a bug")
}
