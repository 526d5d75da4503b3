package storetest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/fill"
)

var dataLaws = []law{
	{"every field", "every field of a record is returned as it was stored", everyField},
	{"exact bytes", "bodies and header values are returned byte for byte", exactBytes},
	{"big values", "a body of one megabyte is stored like a small one", bigValues},
	{"nil and empty",
		"no response, a response without a body and one with an empty body stay distinct where the difference matters",
		nilAndEmpty},
	{"a nil Body",
		"Replace keeps the stored Body if it is given nil, and replaces all of it otherwise", nilBodyKeeps},
	{"nothing shared",
		"the store keeps no reference to the caller's values: changing them after the call changes no record",
		nothingShared},
}

// full returns a record in which every field is set, except for the instants. It also sets fields
// that are added to the type later.
func full() stet.Record {
	r := running("full")
	r.Version, r.Tag = math.MaxInt64, "k_ffee0011deadbeef"
	r.State, r.Attempt, r.Point, r.Cause, r.Holder = stet.Unknown, 3, "charged", "upstream-reset", "höst:1"
	r.Path, r.TraceID = "/v1/charges/%2F?", "0af7651916cd43dd8448eb211c80319c"
	r.Meta = map[string]string{"a": "1", "": "empty", "\xff": "\x00"}
	r.DownstreamKey, r.DownstreamID = "stet_1\xff", "ch_3NQ\x00é"
	r.Status, r.Size, r.Kept = 599, 1<<40, stet.KeptHeader
	r.Published, r.Reconciled, r.Escalated, r.Probes = true, true, true, 8
	r.Rules = stet.Rules{Retain: 36 * time.Hour, KeepExpired: time.Second, FromCreation: true, OnLapse: stet.LapseAtomic}
	r.Took = 1234567 * time.Microsecond
	r.Note = &stet.Note{Who: "ops@host", Why: "asked the provider", Evidence: "ch_1\n\x00", Notice: "msg_2b\xffé"}
	r.Fingerprint.Recipe = `1 fields +/a~1b h:x-y`
	for i := range r.Fingerprint.Sum {
		r.Fingerprint.Sum[i] = byte(255 - i)
	}
	r.Fingerprint.Parts = [5]uint32{0, 1, math.MaxUint32, 1 << 31, 7}
	r.Response = &stet.Response{Status: 599,
		Header:  []stet.Field{{Name: "Link", Value: "<a>"}, {Name: "Link", Value: "<b>"}, {Name: "X-Odd", Value: ""}, {Name: "X-Raw", Value: "\xff\x00é"}},
		Trailer: []stet.Field{{Name: "X-Sum", Value: "1"}}, Body: []byte("body"), Unframed: true}
	r.Request, r.Progress = []byte("request"), []byte("progress\x00")
	fill.Zero(&r) // fields that are not named above
	r.Left = 0    // it comes out only
	return r
}

// sameRecord compares everything that a store must keep.
func sameRecord(t testing.TB, got, want stet.Record) {
	t.Helper()
	for _, r := range []*stet.Record{&got, &want} {
		r.DueIn = 0
		if len(r.Meta) == 0 {
			r.Meta = nil
		}
		if r.Response != nil { // nil and empty lists are one
			c := *r.Response
			c.Header, c.Trailer, c.Body = append([]stet.Field{}, c.Header...), append([]stet.Field{}, c.Trailer...), append([]byte{}, c.Body...)
			r.Response = &c
		}
	}
	g, w := reflect.ValueOf(got.Head), reflect.ValueOf(want.Head)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("Head.%s is %#v, want %#v", g.Type().Field(i).Name, g.Field(i).Interface(), w.Field(i).Interface())
		}
	}
	if !reflect.DeepEqual(got.Body, want.Body) {
		t.Errorf("Body is %+v, want %+v", got.Body, want.Body)
	}
}

func everyField(t testing.TB, x *bench) {
	for name, r := range map[string]stet.Record{"full": full(), "bare": bare()} {
		made := x.create(r)
		want := r
		want.CreatedAt, want.UpdatedAt, want.CompletedAt, want.DueAt, want.AsOf = made.CreatedAt, made.UpdatedAt, made.CompletedAt, made.DueAt, made.AsOf
		sameRecord(t, made, want)
		got := x.get(r.ID)
		want.AsOf = got.AsOf
		sameRecord(t, got, want)
		if t.Failed() {
			t.Fatalf("in the %s record", name)
		}
		h := r.Head // the same through Replace
		h.Version, h.CreatedAt = draw(), made.CreatedAt
		replaced, err := x.store.Replace(x.ctx, made.Version, h, nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Version, want.UpdatedAt, want.DueAt, want.AsOf = h.Version, replaced.UpdatedAt, replaced.DueAt, replaced.AsOf
		sameRecord(t, stet.Record{Head: replaced, Body: want.Body}, want)
		got = x.get(r.ID)
		want.AsOf = got.AsOf
		sameRecord(t, got, want)
	}
}

func bare() stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "bare"}, Version: 1, State: stet.Running, Attempt: 1, DueIn: stet.Never}}
}

func exactBytes(t testing.TB, x *bench) { // RP-08
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	made := x.create(running("k"))
	body := stet.Body{Response: &stet.Response{Status: 200, Body: all, Header: []stet.Field{{Name: "X-All", Value: string(all)}}}, Progress: all}
	x.replace(made.Head, &body, completed)
	got := x.get(made.ID)
	if !bytes.Equal(got.Response.Body, all) || got.Response.Header[0].Value != string(all) || !bytes.Equal(got.Progress, all) {
		t.Error("bytes were changed")
	}
}

func bigValues(t testing.TB, x *bench) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	r := running("k")
	r.Path = "/" + strings.Repeat("p", 8000)
	made := x.create(r)
	fields := make([]stet.Field, 500)
	for i := range fields {
		fields[i] = stet.Field{Name: "X-Many", Value: fmt.Sprintf("%0100d", i)}
	}
	x.replace(made.Head, &stet.Body{Response: &stet.Response{Status: 200, Body: big, Header: fields}, Request: big}, completed)
	got := x.get(r.ID)
	if !bytes.Equal(got.Response.Body, big) || !bytes.Equal(got.Request, big) || !reflect.DeepEqual(got.Response.Header, fields) || got.Path != r.Path {
		t.Error("a big value was changed")
	}
}

func nilAndEmpty(t testing.TB, x *bench) {
	for i, b := range []*stet.Body{{}, {Response: &stet.Response{Status: 204}}, {Response: &stet.Response{Status: 200, Body: []byte{}}}} {
		made := x.create(running(key(i)))
		x.replace(made.Head, b, completed)
		got := x.get(made.ID)
		if (got.Response == nil) != (b.Response == nil) {
			t.Errorf("case %d: a response came back: %v", i, got.Response != nil)
		}
		if got.Response != nil && (got.Response.Status != b.Response.Status || len(got.Response.Body) != 0) {
			t.Errorf("case %d: %+v", i, got.Response)
		}
	}
}

func nilBodyKeeps(t testing.TB, x *bench) {
	r := running("k")
	r.Request, r.Progress = []byte("request"), []byte("progress")
	r.Response = &stet.Response{Status: 200, Body: []byte("response")}
	h := x.create(r).Head
	for range 3 {
		h = x.replace(h, nil, func(*stet.Head) {})
	}
	if got := x.get(r.ID); string(got.Request) != "request" || string(got.Progress) != "progress" || got.Response == nil || string(got.Response.Body) != "response" {
		t.Errorf("a nil Body changed the stored one to %+v", got.Body)
	}
	h = x.replace(h, &stet.Body{Progress: []byte("more")}, func(*stet.Head) {})
	if got := x.get(r.ID); got.Request != nil || string(got.Progress) != "more" || got.Response != nil {
		t.Errorf("a Body did not take the stored one's place: %+v", got.Body)
	}
	x.replace(h, &stet.Body{}, func(*stet.Head) {})
	if got := x.get(r.ID); got.Request != nil || got.Progress != nil || got.Response != nil {
		t.Errorf("an empty Body did not empty the stored one: %+v", got.Body)
	}
}

func nothingShared(t testing.TB, x *bench) {
	r := full()
	made := x.create(r)
	want := full()
	spoil := func(r *stet.Record) {
		r.Response.Body[0], r.Response.Header[0].Value, r.Response.Trailer[0].Value = 'X', "spoilt", "spoilt"
		r.Request[0], r.Progress[0] = 'X', 'X'
		r.Meta["a"], r.Note.Why = "spoilt", "spoilt"
	}
	spoil(&r)
	got := x.get(made.ID)
	want.CreatedAt, want.UpdatedAt, want.CompletedAt, want.DueAt, want.AsOf = got.CreatedAt, got.UpdatedAt, got.CompletedAt, got.DueAt, got.AsOf
	sameRecord(t, got, want)
	again := full()
	h := again.Head
	h.Version, h.CreatedAt = draw(), made.CreatedAt
	if _, err := x.store.Replace(x.ctx, made.Version, h, &again.Body); err != nil {
		t.Fatal(err)
	}
	spoil(&again)
	got = x.get(made.ID)
	want.Version, want.UpdatedAt, want.DueAt, want.AsOf = h.Version, got.UpdatedAt, got.DueAt, got.AsOf
	sameRecord(t, got, want)
}
