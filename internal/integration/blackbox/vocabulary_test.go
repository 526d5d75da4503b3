package blackbox

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// recorder is a testing.TB that notes a failure instead of having one.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// complaint returns what a check says; "" if it is content.
func complaint(c *C, check func(c *C)) string {
	r := &recorder{TB: c.TB}
	d := *c
	d.TB = r
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(&d)
	}()
	<-done
	return r.failed
}

// canned answers with the response whose number the path ends in.
type canned []func(w http.ResponseWriter)

func (a canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var i int
	fmt.Sscanf(r.URL.Path, "/%d", &i)
	a[i](w)
}

func first(w http.ResponseWriter) {
	w.Header().Set(echo, `"k"`)
	w.Header().Set(expires, "Sat, 21 Nov 2026 04:00:00 GMT")
	w.Header()["Link"] = []string{"<a>", "<b>"}
	w.Header().Set("Set-Cookie", "a=1")
	w.WriteHeader(201)
	fmt.Fprint(w, "body")
}

func again(change func(h http.Header), status int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		h := w.Header()
		h.Set(echo, `"k"`)
		h.Set(expires, "Sat, 21 Nov 2026 04:00:00 GMT")
		h["Link"] = []string{"<a>", "<b>"}
		h.Set(replayed, "true")
		h.Set(replay, "true")
		if change != nil {
			change(h)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

// A vocabulary that does not notice a defect would let every server pass.
func TestReplaysNoticesDefects(t *testing.T) {
	rows := []struct {
		name string
		send func(http.ResponseWriter)
		want string // in the complaint
	}{
		{"a true replay", again(nil, 201, "body"), ""},
		{"another status", again(nil, 200, "body"), "status 201"},
		{"another body", again(nil, 201, "bodY"), "body differs"},
		{"no first marker", again(func(h http.Header) { h.Del(replayed) }, 201, "body"), replayed},
		{"no second marker", again(func(h http.Header) { h.Del(replay) }, 201, "body"), replay},
		{"lines merged", again(func(h http.Header) { h.Set("Link", "<a>, <b>") }, 201, "body"), "Link"},
		{"lines swapped", again(func(h http.Header) { h["Link"] = []string{"<b>", "<a>"} }, 201, "body"), "Link"},
		{"a cookie", again(func(h http.Header) { h.Set("Set-Cookie", "a=1") }, 201, "body"), "Set-Cookie"},
		{"a field more", again(func(h http.Header) { h.Set("X-More", "1") }, 201, "body"), "X-More"},
		{"another expiry", again(func(h http.Header) { h.Set(expires, "Sat, 21 Nov 2026 04:00:01 GMT") }, 201, "body"), expires},
		{"no echo", again(func(h http.Header) { h.Del(echo) }, 201, "body"), echo},
	}
	answers := canned{first}
	for _, row := range rows {
		answers = append(answers, row.send)
	}
	c := newBare(t, answers)
	for i, row := range rows {
		said := complaint(c, func(c *C) { c.POST(fmt.Sprintf("/%d", i+1)).Replays(c.POST("/0").First(201)) })
		if (said == "") != (row.want == "") || !strings.Contains(said, row.want) {
			t.Errorf("%s: %q", row.name, said)
		}
	}
	if complaint(c, func(c *C) { c.POST("/1").First(201) }) == "" {
		t.Error("a replay passed for a first response")
	}
	if complaint(c, func(c *C) { c.POST("/0").Passed(201) }) == "" {
		t.Error("an echoed key passed for a response the layer had no part in")
	}
}

func TestProblemNoticesDefects(t *testing.T) {
	const (
		uri  = "https://example.org/problems/in-progress"
		good = `{"type":"` + uri + `","title":"t","status":409,"detail":"d","code":"in-progress","retryable":true,"key_action":"reuse","retry_after":3}`
	)
	send := func(text string, change func(h http.Header)) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Link", "<"+uri+`>; rel="describedby"`)
			w.Header().Set("Retry-After", "3")
			if change != nil {
				change(w.Header())
			}
			w.WriteHeader(409)
			fmt.Fprint(w, text)
		}
	}
	swap := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	rows := []struct {
		name string
		send func(http.ResponseWriter)
		bad  bool
	}{
		{"a true one", send(good, nil), false},
		{"another code", send(swap(`"in-progress"`, `"key-reused"`), nil), true},
		{"another member status", send(swap("409", "400"), nil), true},
		{"a relative type", send(swap("https://example.org", ""), nil), true},
		{"no title", send(swap(`"t"`, `""`), nil), true},
		{"retryable as a string", send(swap("true", `"true"`), nil), true},
		{"not retryable", send(swap("true", "false"), nil), true},
		{"another action", send(swap("reuse", "rotate"), nil), true},
		{"another retry_after", send(swap(":3", ":4"), nil), true},
		{"no retry_after", send(swap(`,"retry_after":3`, ""), nil), true},
		{"plain JSON", send(good, func(h http.Header) { h.Set("Content-Type", "application/json") }), true},
		{"no Link", send(good, func(h http.Header) { h.Del("Link") }), true},
		{"Link elsewhere", send(good, func(h http.Header) { h.Set("Link", `<https://x>; rel="describedby"`) }), true},
		{"no Retry-After", send(good, func(h http.Header) { h.Del("Retry-After") }), true},
		{"Retry-After of 0", send(good, func(h http.Header) { h.Set("Retry-After", "0") }), true},
		{"Retry-After of 31", send(swap(":3", ":31"), func(h http.Header) { h.Set("Retry-After", "31") }), true},
		{"a replay marker", send(good, func(h http.Header) { h.Set(replayed, "true") }), true},
		{"the body quoted", send(swap(`"d"`, `"your {\"a\":1} and {"a":1}"`), nil), true},
		{"the key quoted", send(swap(`"d"`, `"secretkey"`), nil), true},
	}
	var answers canned
	for _, row := range rows {
		answers = append(answers, row.send)
	}
	c := newBare(t, answers)
	for i, row := range rows {
		said := complaint(c, func(c *C) { c.POST(fmt.Sprintf("/%d", i), key(`"secretkey"`)).Problem("in-progress") })
		if (said != "") != row.bad {
			t.Errorf("%s: %q", row.name, said)
		}
	}
}

// Every row of the tables is here once: run, or skipped with a reason.
func TestEveryRowIsHere(t *testing.T) {
	have := map[string]Case{}
	for _, row := range families() {
		if _, twice := have[row.ID]; twice {
			t.Errorf("%s is there twice", row.ID)
		}
		if (row.Run == nil) == (row.Skip == "") {
			t.Errorf("%s has to be run or skipped, not both or neither", row.ID)
		}
		if (row.Only == "") != (row.Why == "") {
			t.Errorf("%s: a row for one target says why", row.ID)
		}
		have[row.ID] = row
	}
	for _, f := range []struct {
		name string
		rows int
	}{
		{"KS", 18}, {"MM", 11}, {"FP", 30}, {"CC", 12}, {"RP", 24}, {"TT", 10}, {"SC", 9}, {"FX", 15},
		{"SF", 9}, {"CR", 16}, {"SM", 9}, {"LM", 9}, {"SE", 11}, {"GW", 8}, {"PF", 6},
	} {
		for i := 1; i <= f.rows; i++ {
			if id := fmt.Sprintf("%s-%02d", f.name, i); have[id].ID == "" {
				t.Errorf("%s is missing", id)
			}
		}
	}
}
