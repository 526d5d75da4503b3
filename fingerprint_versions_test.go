package stet_test

import (
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// A record that was made by the rules of an older version is compared by them for as long as it
// lives, and one of today by today's, whatever recipe the process has that meets it.
func TestRecordsAreComparedByTheRulesTheyWereMadeBy(t *testing.T) { // I9, W23, A18, A19
	lines := func(body string) stet.Subject {
		h := map[string][]string{"Content-Type": {"application/x-www-form-urlencoded"}}
		return stet.Subject{Method: "POST", Path: "/orders", Header: h, Body: []byte(body)}
	}
	json := func(body string) stet.Subject {
		h := map[string][]string{"Content-Type": {"application/json"}}
		return stet.Subject{Method: "POST", Path: "/orders", Header: h, Body: []byte(body)}
	}
	routed := func(path, left string) stet.Subject { return stet.Subject{Method: "POST", Path: path, Routed: left} }
	part := func(of string) stet.Subject {
		return stet.Subject{Method: "PUT", Path: "/f", Header: map[string][]string{"Content-Range": {of}}, Body: []byte("12345")}
	}
	for _, c := range []struct {
		recipe     string
		first, one stet.Subject
		want       stet.Verdict
	}{
		{"1 auto", lines("i[][id]=1&i[][qty]=2&i[][id]=3"), lines("i[][id]=1&i[][id]=3&i[][qty]=2"), stet.InProgress},
		{"2 auto", lines("i[][id]=1&i[][qty]=2&i[][id]=3"), lines("i[][id]=1&i[][id]=3&i[][qty]=2"), stet.Mismatch},
		{"2 auto", lines("i[][id]=1&i[][qty]=2&i[][id]=3"), lines("i[][id]=1&i[][qty]=2&i[][id]=3"), stet.InProgress},
		{"1 fields +/amount", json(`[1]`), json(`{"amuont":999}`), stet.InProgress},
		{"2 fields +/amount", json(`[1]`), json(`{"amuont":999}`), stet.Mismatch},
		{"2 auto", routed("/charges/7", "/7"), routed("/refunds/7", "/7"), stet.InProgress},
		{"2 auto", routed("/charges/7", "/7"), routed("/charges/7", "/8"), stet.Mismatch},
		{"3 auto", routed("/charges/7", "/7"), routed("/refunds/7", "/7"), stet.Mismatch},
		{"3 auto", routed("/charges/7", "/7"), routed("/charges/7", "/charges/7"), stet.InProgress},
		{"3 auto", routed("/charges/7", "/7"), routed("/charges/7", "/8"), stet.Mismatch},
		{"2 auto", part("bytes 0-4/9"), part("bytes 5-9/9"), stet.InProgress},
		{"3 auto", part("bytes 0-4/9"), part("bytes 5-9/9"), stet.Mismatch},
		{"3 auto", part("bytes 0-4/9"), part("bytes 0-4/9"), stet.InProgress},
		{"1 fields +/amount", json(`{"amount":1}`), json(`{"amount":2}`), stet.Mismatch},
	} {
		old, err := stet.ParseRecipe(c.recipe)
		if err != nil {
			t.Fatal(err)
		}
		made, err := old.Compile()
		if err != nil {
			t.Fatal(err)
		}
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		id := stet.ID{Scope: "s", Key: "k"}
		d, err := e.Begin(t.Context(), stet.Request{ID: id, Subject: c.first, Recipe: made})
		if err != nil || d.Verdict != stet.Execute || d.Record.Fingerprint.Recipe != c.recipe {
			t.Fatalf("%s: %v, %v, made by %q", c.recipe, d.Verdict, err, d.Record.Fingerprint.Recipe)
		}
		again, err := e.Begin(t.Context(), stet.Request{ID: id, Subject: c.one}) // by today's default
		if err != nil || again.Verdict != c.want {
			t.Errorf("%s: %v, %v; want %v", c.recipe, again.Verdict, err, c.want)
		}
	}
}
