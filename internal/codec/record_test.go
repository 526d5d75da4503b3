package codec_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/fill"
)

// instants are the fields of a head that stores keep by themselves.
var instants = []string{"DueIn", "DueAt", "CreatedAt", "UpdatedAt", "CompletedAt", "AsOf"}

// leaves returns the path of each field below t.
func leaves(t reflect.Type, path ...int) (all [][]int) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(path), i)
		switch {
		case path == nil && slices.Contains(instants, f.Name):
		case f.Type.Kind() == reflect.Struct:
			all = append(all, leaves(f.Type, at...)...)
		default:
			all = append(all, at)
		}
	}
	return all
}

// A field of a head or of a body that is not in the codec's list fails here, alone and among all
// others.
func TestEveryFieldComesBack(t *testing.T) {
	var all stet.Head
	for _, path := range leaves(reflect.TypeFor[stet.Head]()) {
		var h, got stet.Head
		field := reflect.ValueOf(&h).Elem().FieldByIndex(path)
		fill.Zero(field.Addr().Interface())
		reflect.ValueOf(&all).Elem().FieldByIndex(path).Set(field)
		b := codec.AppendHead(nil, &h)
		if err := codec.Head(string(b), &got); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("Head.%s does not come back: %+v, %v", reflect.TypeFor[stet.Head]().FieldByIndex(path).Name, got, err)
		}
	}
	var got stet.Head
	if err := codec.Head(string(codec.AppendHead(nil, &all)), &got); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("a head with every field came back as %+v, %v", got, err)
	}
	for _, b := range []stet.Body{filledBody(), {}, {Response: &stet.Response{}}, {Request: []byte{}}, {Response: &stet.Response{Body: []byte{}}}} {
		var got stet.Body
		if err := codec.Body(string(codec.AppendBody(nil, &b)), &got); err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("a body came back as %+v, %v, want %+v", got, err, b)
		}
	}
}

func filledBody() (b stet.Body) {
	fill.Zero(&b)
	b.Left = 0 // it is not stored
	return b
}

func goldenHead() stet.Head {
	return stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Tag: "k_1", Version: 1, State: stet.Unknown,
		Fingerprint: stet.Fingerprint{Sum: [32]byte{31: 1}, Parts: [5]uint32{4: 2}, Recipe: "r"}, Attempt: 2, Point: "p", Cause: "c", Holder: "h",
		Route: "ro", Method: "m", Path: "/", TraceID: "t", Meta: map[string]string{"b": "", "a": "1"}, DownstreamKey: "dk", DownstreamID: "di",
		Status: 201, Size: -1, Kept: stet.KeptStatus, Published: true, Reconciled: true, Escalated: true, Probes: 3,
		Rules: stet.Rules{Retain: time.Microsecond, KeepExpired: -1, FromCreation: true, OnLapse: stet.LapseAtomic}, Took: 1,
		Note: &stet.Note{Who: "w", Why: "y", Evidence: "e", Notice: "n", Action: "a"}}
}

// The bytes of format 2 are a promise: later programs read them.
func TestGoldenRecord(t *testing.T) {
	h := goldenHead()
	want := "\x01\x01s\x02\x01k\x03\x03k_1\x04\x02\x05\x08" +
		"\x06" + strings.Repeat("\x00", 31) + "\x01\x07" + strings.Repeat("\x00", 19) + "\x02\x08\x01r\x09\x04\x0a\x01p\x0b\x01c\x0c\x01h" +
		"\x0d\x02ro\x0e\x01m\x0f\x01/\x10\x01t\x11\x02\x01a\x011\x01b\x00\x12\x02dk\x13\x02di" +
		"\x14\x92\x03\x15\x01\x16\x04\x17\x18\x19\x1a\x06\x1b\xd0\x0f\x1c\x01\x1d\x1e\x06\x1f\x02\x20\x01w\x01y\x01e\x01n\x01a"
	if got := string(codec.AppendHead(nil, &h)); got != want {
		t.Errorf("head:\ngot  %q\nwant %q", got, want)
	}
	b := stet.Body{Response: &stet.Response{Status: 200, Header: []stet.Field{{Name: "A", Value: "b"}}, Trailer: []stet.Field{{Name: "T"}},
		Body: []byte("x")}, Request: []byte{}, Progress: []byte("p")}
	want = "\x01\x02\x90\x03\x03\x01\x01A\x01b\x04\x01\x01T\x00\x05\x01x\x06\x00\x07\x01p"
	for _, b.Response.Unframed = range []bool{false, true} {
		if got := string(codec.AppendBody(nil, &b)); got != want {
			t.Errorf("body:\ngot  %q\nwant %q", got, want)
		}
		want += "\x08"
	}
}

func TestRefusesRecords(t *testing.T) {
	h := goldenHead()
	whole := string(codec.AppendHead(nil, &h))
	for name, s := range map[string]string{
		"an unknown field":          "\x21",
		"field 0":                   "\x00",
		"fields out of order":       "\x02\x01k\x01\x01s",
		"a field twice":             "\x01\x01s\x01\x01s",
		"an empty string":           "\x01\x00",
		"a number 0":                "\x09\x00",
		"a number not the shortest": "\x09\x82\x00",
		"an unknown state":          "\x05\x0c",
		"a state beyond its type":   "\x05\x82\x04",
		"an unknown Kept":           "\x16\x06",
		"an unknown rule":           "\x1e\x08",
		"a sum of zeros":            "\x06" + strings.Repeat("\x00", 32),
		"no metadata":               "\x11\x00",
		"metadata out of order":     "\x11\x02\x01b\x00\x01a\x00",
		"a huge number of metadata": "\x11\xff\xff\xff\xff\x7f",
		"bytes after the end":       whole + "\x00",
	} {
		if err := codec.Head(s, new(stet.Head)); !errors.Is(err, codec.ErrFormat) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, s := range map[string]string{
		"a status without a response": "\x02\x90\x03",
		"a header without lines":      "\x01\x03\x00",
		"an unknown field":            "\x09",
		"an end without a response":   "\x08",
		"torn bytes":                  "\x07\x02p",
	} {
		if err := codec.Body(s, new(stet.Body)); !errors.Is(err, codec.ErrFormat) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, bad := range []stet.Head{{State: stet.Running}, {Version: 1 << 63, State: stet.Running}, {Version: 1}, {Version: 1, State: 6},
		{Version: 1, State: 1, Kept: 3}, {Version: 1, State: 1, Rules: stet.Rules{OnLapse: 4}}} {
		if codec.Check(&bad) == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// What is read as a head or as a body is written with the same bytes.
func FuzzRecord(f *testing.F) {
	h, b := goldenHead(), filledBody()
	f.Add(string(codec.AppendHead(nil, &h)))
	f.Add(string(codec.AppendBody(nil, &b)))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		var h stet.Head
		if codec.Head(s, &h) == nil && string(codec.AppendHead(nil, &h)) != s {
			t.Fatalf("%q is read as a head, which is written %q", s, codec.AppendHead(nil, &h))
		}
		var b stet.Body
		if codec.Body(s, &b) == nil && string(codec.AppendBody(nil, &b)) != s {
			t.Fatalf("%q is read as a body, which is written %q", s, codec.AppendBody(nil, &b))
		}
	})
}
