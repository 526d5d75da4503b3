package sqltext

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

func sample() stet.Record {
	return stet.Record{
		Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 7, State: stet.Completed, Status: 201, Attempt: 2, DueIn: time.Second,
			Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{1}, Parts: [5]uint32{1, 2, 3, 4, math.MaxUint32}},
			Meta:        map[string]string{"a": "b"}, Note: &stet.Note{Who: "w"}, Rules: stet.Rules{Retain: time.Hour, OnLapse: stet.LapseResume}},
		Body: stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "A", Value: "b"}}, Body: []byte("x")}, Progress: []byte("p")},
	}
}

// arguments are those of an insert, by column.
func arguments(t *testing.T, r *stet.Record, now int64) map[string]any {
	t.Helper()
	text := Encoder(SQLiteText)
	args, err := text.Head(nil, &r.Head)
	if err != nil {
		t.Fatal(err)
	}
	s := Born(&r.Head, now)
	packed := args[0].([]byte)
	s.Seal(packed, Unsealed(packed))
	args = text.ID(s.Args(Body(args, r.ID, &r.Body)), r.ID)
	names := slices.Concat(head, body, instants, identity)
	const again = 3 // the tag, the scope and the key, by which the other index is asked
	if len(names) != len(args) || strings.Count(SQLiteInsert, "?") != len(args)+again {
		t.Fatalf("%d columns, %d places, %d arguments", len(names), strings.Count(SQLiteInsert, "?"), len(args))
	}
	byName := map[string]any{}
	for i, n := range names {
		byName[n] = args[i]
	}
	return byName
}

// Statements, arguments and destinations go by the same columns.
func TestPlacesFitColumns(t *testing.T) {
	r := sample()
	args := arguments(t, &r, 5)
	if args["scope"] != "s" || args["status"] != int64(201) || args["state"] != "completed" || args["created_at"] != int64(5) {
		t.Errorf("arguments are in other places than their columns: %v", args)
	}
	var row Row
	if n, want := len(row.Dest()), len(headColumns); n != want {
		t.Errorf("a head has %d columns and %d destinations", want, n)
	}
	if n, want := len(row.DestBody()), len(recordColumns)+1; n != want {
		t.Errorf("a record has %d columns and %d destinations", want, n)
	}
	const when, again = 3, 1 // scope, key, version; updated_at is compared, too, and the tag instead of being set
	for text, want := range map[string]int{
		SQLiteUpdate:     len(head) + len(instants) + when + again,
		SQLiteUpdateBody: len(head) + len(body) + len(instants) + when + again,
		SQLiteDelete:     when,
	} {
		if n := strings.Count(text, "?"); n != want {
			t.Errorf("%d places, want %d: %s", n, want, text)
		}
	}
}

func TestSQLiteText(t *testing.T) {
	for s, want := range map[string]any{
		"":           "",
		"order-4711": "order-4711",
		"höst\n":     "höst\n",
		"a\x00b":     []byte("a\x00b"),
		"\xff":       []byte("\xff"),
	} {
		if got := SQLiteText(s); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is stored as %T %q", s, got, got)
		}
	}
}

// What no reader would accept is not written (style: assert before writing and after reading).
func TestHeadRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*stet.Head){
		"no version":           func(h *stet.Head) { h.Version = 0 },
		"a version of 64 bits": func(h *stet.Head) { h.Version = 1 << 63 },
		"no state":             func(h *stet.Head) { h.State = 0 },
		"an unknown state":     func(h *stet.Head) { h.State = stet.Expired + 1 },
		"an unknown kept":      func(h *stet.Head) { h.Kept = stet.KeptStatus + 1 },
		"an unknown rule":      func(h *stet.Head) { h.Rules.OnLapse = stet.LapseAtomic + 1 },
	} {
		h := sample().Head
		spoil(&h)
		if _, err := Encoder(SQLiteText).Head(nil, &h); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestStamps(t *testing.T) {
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	old := stet.Head{State: stet.Completed, DueIn: stet.Never, CreatedAt: at(10), CompletedAt: at(20)}
	young := old
	young.CreatedAt = time.Time{}
	running := young
	running.State = stet.Running
	for name, tt := range map[string]struct {
		got, want Stamp
	}{
		"created":                  {Born(&stet.Head{State: stet.Running, DueIn: time.Millisecond}, 30), Stamp{Due: 1030, Updated: 30, Created: 30}},
		"created, and says when":   {Born(&old, 30), Stamp{Updated: 30, Created: 30, Ended: 30, Never: true}},
		"changed":                  {Changed(&old, 30), Stamp{Updated: 30, Created: 10, Ended: 20, Never: true}},
		"completed":                {Changed(&stet.Head{State: stet.Completed, CreatedAt: at(10)}, 30), Stamp{Due: 30, Updated: 30, Created: 10, Ended: 30}},
		"a new life":               {Changed(&running, 30), Stamp{Updated: 30, Created: 30, Never: true}},
		"a new life, complete":     {Changed(&young, 30), Stamp{Updated: 30, Created: 30, Ended: 30, Never: true}},
		"less than a microsecond":  {Born(&stet.Head{DueIn: 1999}, 30), Stamp{Due: 31, Updated: 30, Created: 30}},
		"the longest there can be": {Born(&stet.Head{DueIn: math.MaxInt64}, 1<<52), Stamp{Due: 1<<52 + math.MaxInt64/1000, Updated: 1 << 52, Created: 1 << 52}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, tt.got, tt.want)
		}
	}
}

// Every part of a head and of a body is under its checksum: a change to any column is refused.
func TestSumsCoverEverything(t *testing.T) {
	base := sample()
	want := arguments(t, &base, 5)
	sum := func(args map[string]any, column string) uint32 { return Unsealed(args[column].([]byte)) }
	for name, change := range map[string]func(r *stet.Record){
		"Scope": func(r *stet.Record) { r.Scope = "t" }, "Key": func(r *stet.Record) { r.Key = "l" },
		"a byte moved from Scope to Key": func(r *stet.Record) { r.Scope, r.Key = "", "sk" },
		"Version":                        func(r *stet.Record) { r.Version++ }, "State": func(r *stet.Record) { r.State = stet.Expired },
		"Sum": func(r *stet.Record) { r.Fingerprint.Sum[31]++ }, "Parts": func(r *stet.Record) { r.Fingerprint.Parts[4]-- },
		"Recipe": func(r *stet.Record) { r.Fingerprint.Recipe = "2" }, "Attempt": func(r *stet.Record) { r.Attempt++ },
		"Point": func(r *stet.Record) { r.Point = "p" }, "Cause": func(r *stet.Record) { r.Cause = "p" }, "Holder": func(r *stet.Record) { r.Holder = "p" },
		"Route": func(r *stet.Record) { r.Route = "p" }, "Method": func(r *stet.Record) { r.Method = "p" }, "Path": func(r *stet.Record) { r.Path = "p" },
		"TraceID": func(r *stet.Record) { r.TraceID = "p" }, "Meta": func(r *stet.Record) { r.Meta = nil },
		"Status": func(r *stet.Record) { r.Status++ }, "Size": func(r *stet.Record) { r.Size++ }, "Kept": func(r *stet.Record) { r.Kept++ },
		"Published": func(r *stet.Record) { r.Published = true }, "Reconciled": func(r *stet.Record) { r.Reconciled = true },
		"Probes": func(r *stet.Record) { r.Probes++ }, "Escalated": func(r *stet.Record) { r.Escalated = true },
		"Retain": func(r *stet.Record) { r.Rules.Retain++ }, "KeepExpired": func(r *stet.Record) { r.Rules.KeepExpired++ },
		"FromCreation": func(r *stet.Record) { r.Rules.FromCreation = true }, "OnLapse": func(r *stet.Record) { r.Rules.OnLapse++ },
		"Took": func(r *stet.Record) { r.Took++ }, "no Note": func(r *stet.Record) { r.Note = nil },
		"Who": func(r *stet.Record) { r.Note = &stet.Note{} }, "Why": func(r *stet.Record) { r.Note = &stet.Note{Who: "w", Why: "y"} },
		"Evidence": func(r *stet.Record) { r.Note = &stet.Note{Who: "w", Evidence: "y"} },
		"Notice":   func(r *stet.Record) { r.Note = &stet.Note{Who: "w", Notice: "y"} },
		"DueIn":    func(r *stet.Record) { r.DueIn += time.Second }, "Never": func(r *stet.Record) { r.DueIn = stet.Never },
	} {
		r := sample()
		change(&r)
		if got := arguments(t, &r, 5); sum(got, "head") == sum(want, "head") {
			t.Errorf("%s is not under the head's checksum", name)
		}
	}
	if got := arguments(t, &base, 6); sum(got, "head") == sum(want, "head") {
		t.Error("the instants are not under the head's checksum")
	}
	for name, change := range map[string]func(r *stet.Record){
		"Key": func(r *stet.Record) { r.Key = "l" }, "Status": func(r *stet.Record) { r.Response.Status++ },
		"Header": func(r *stet.Record) { r.Response.Header = nil }, "Trailer": func(r *stet.Record) { r.Response.Trailer = r.Response.Header },
		"Body": func(r *stet.Record) { r.Response.Body = nil }, "no Response": func(r *stet.Record) { r.Response = nil },
		"Request": func(r *stet.Record) { r.Request = []byte("x") }, "Progress": func(r *stet.Record) { r.Progress = nil },
		"Progress taken for Request": func(r *stet.Record) { r.Request, r.Progress = r.Progress, nil },
	} {
		r := sample()
		change(&r)
		got := arguments(t, &r, 5)
		if sum(got, "body") == sum(want, "body") {
			t.Errorf("%s is not under the body's checksum", name)
		}
	}
}

// A row of which nothing was read is refused, not decoded.
func TestEmptyRow(t *testing.T) {
	var row Row
	if _, err := row.Record(0); !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
