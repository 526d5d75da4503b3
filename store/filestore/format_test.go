package filestore

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// golden is a file of schema 1. It is not written anew when the format changes: stores hold such
// files.
func golden(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "schema1.json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func goldenRecord() stet.Record {
	at := time.Date(2025, 10, 1, 1, 2, 3, 456789000, time.UTC)
	r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: "abc123"}, Version: math.MaxInt64, State: stet.Completed,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto", Parts: [5]uint32{1, 2, 3, 4, math.MaxUint32}}, Attempt: 2, Point: "charged", Cause: "x", DownstreamKey: "d", DownstreamID: "ch_1",
		Holder: "host:1", Route: "charges", Method: "POST", Path: "/v1/charges", TraceID: "t", Meta: map[string]string{"a": "<b>", "\xff": "\x00"},
		Status: 201, Size: 15, Kept: stet.KeptHeader, Published: true, Reconciled: true, Probes: 3, Escalated: true,
		Rules: stet.Rules{Retain: 24 * time.Hour, KeepExpired: time.Hour, FromCreation: true, OnLapse: stet.LapseResume},
		Took:  142 * time.Millisecond, Note: &stet.Note{Who: "ops", Why: "asked", Evidence: "ch_1"},
		DueAt: at.Add(24 * time.Hour), CreatedAt: at, UpdatedAt: at.Add(time.Second), CompletedAt: at.Add(time.Second)},
		Body: stet.Body{Request: []byte{}, Progress: []byte("p"), Response: &stet.Response{Status: 201, Body: []byte(`{"id": "12345"}`),
			Header:  []stet.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Link", Value: "<a>"}, {Name: "Link", Value: "\xff"}},
			Trailer: []stet.Field{{Name: "X-Sum", Value: ""}}}}}
	for i := range r.Fingerprint.Sum {
		r.Fingerprint.Sum[i] = byte(i)
	}
	return r
}

func TestFilesOfSchemaOneAreReadForEver(t *testing.T) {
	got, err := decode(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	want := goldenRecord()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if b, err := encode(&want); err != nil || !bytes.Equal(b, golden(t)) {
		t.Errorf("written now (%v):\n%s", err, b)
	}
}

// sealed makes a file with a right checksum of any text.
func sealed(held []byte) []byte {
	return fmt.Appendf(bytes.Clone(held), sealFormat, crc32.Checksum(held, castagnoli))
}

func TestFilesThatAreWholeButWrongAreRefused(t *testing.T) { // SF-06
	held := golden(t)
	held = held[:len(held)-sealLen]
	if _, err := decode(sealed(held)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new string }{
		"a later schema":    {`"schema": 1,`, `"schema": 2,`},
		"an unknown field":  {`"attempt": 2,`, `"attempt": 2, "priority": 7,`},
		"an unknown state":  {`"completed"`, `"paused"`},
		"no state":          {`"completed"`, `""`},
		"an unknown rule":   {`"resume"`, `"guess"`},
		"an unknown kept":   {`"kept": "header"`, `"kept": "half"`},
		"a short sum":       {`"000102`, `"0102`},
		"no hex":            {`"000102`, `"zz0102`},
		"short parts":       {`ffffffff",`, `ffff",`},
		"a wrong type":      {`"attempt": 2`, `"attempt": "2"`},
		"an odd time":       {`2025-10-01T01:02:03.456789Z`, `yesterday`},
		"an odd span":       {`24h0m0s`, `a day`},
		"two due instants":  {`"expires_at"`, `"due_at": "2025-10-02T01:02:03.456789Z", "expires_at"`},
		"another's instant": {`"expires_at"`, `"due_at"`},
		"half a nanosecond": {`"execution_time_ms": 142`, `"execution_time_ms": 142.0000005`},
		"an exponent":       {`"execution_time_ms": 142`, `"execution_time_ms": 142e3`},
		"no number":         {`"execution_time_ms": 142`, `"execution_time_ms": null`},
		"ages":              {`"execution_time_ms": 142`, `"execution_time_ms": 9223372036855`},
		"a second document": {"", "\n}\n{"},
	} {
		changed := bytes.Replace(held, []byte(c.old), []byte(c.new), 1)
		if c.old == "" {
			changed = append(bytes.Clone(held), c.new...)
		}
		if bytes.Equal(changed, held) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := decode(sealed(changed)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestRecordsThatCouldNotBeReadAreNotWritten(t *testing.T) {
	for name, spoil := range map[string]func(*stet.Record){
		"state": func(r *stet.Record) { r.State = 0 },
		"kept":  func(r *stet.Record) { r.Kept = 9 },
		"rule":  func(r *stet.Record) { r.Rules.OnLapse = 9 },
	} {
		r := goldenRecord()
		spoil(&r)
		if _, err := encode(&r); err == nil {
			t.Errorf("a record without a proper %s was written", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, err := encode(&stet.Record{Head: stet.Head{State: stet.Running}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-sealLen])
	full := goldenRecord()
	if b, err = encode(&full); err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-sealLen])
	f.Add([]byte("{\n  \"schema\": 1,\n"))
	f.Fuzz(func(t *testing.T, held []byte) {
		if _, err := decode(held); err == nil && !bytes.HasSuffix(held, []byte("\"\n}\n")) {
			t.Fatal("a file without an end was read")
		}
		r, err := decode(sealed(held))
		if err != nil {
			return
		}
		again, err := encode(&r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if back, err := decode(again); err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("read again: %+v, %v; before %+v", back, err, r)
		}
	})
}

func TestNoNanosecondOfAnExecutionIsLost(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000001", 142 * time.Millisecond: "142", 1500 * time.Microsecond: "1.5", time.Minute: "60000", 10: "0.00001",
		-1: "-0.000001", -1500 * time.Microsecond: "-1.5", math.MaxInt64: "9223372036854.775807", math.MinInt64: "-9223372036854.775808",
	} {
		b, err := millis(d).MarshalJSON()
		var back millis
		if err2 := back.UnmarshalJSON(b); err != nil || err2 != nil || string(b) != want || back != millis(d) {
			t.Errorf("%d ns are written as %s, want %s; read as %d (%v, %v)", d, b, want, back, err, err2)
		}
	}
}

func TestInstantHasTheNameOfItsState(t *testing.T) {
	at := time.Date(2025, 10, 2, 1, 2, 3, 0, time.UTC)
	for state, want := range map[stet.State]string{stet.Running: "due_at", stet.Completed: "expires_at", stet.Retryable: "due_at", stet.Unknown: "due_at", stet.Expired: "due_at"} {
		r := stet.Record{Head: stet.Head{State: state, DueAt: at}}
		b, err := encode(&r)
		if err != nil || bytes.Count(b, []byte("2025-10-02T01:02:03Z")) != 1 || !bytes.Contains(b, []byte(`"`+want+`": "2025-10-02T01:02:03Z"`)) {
			t.Errorf("%v, want %s (%v):\n%s", state, want, err, b)
		}
		if got, err := decode(b); err != nil || !got.DueAt.Equal(at) {
			t.Errorf("%v: read as %v (%v)", state, got.DueAt, err)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "é", "\xff", "\x00", "<&>\u2028", `{"b64":""}`, "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: stet.Scope(s), Key: stet.Key(s)}, State: stet.Running, Meta: map[string]string{s: s}, Path: s}}
		b, err := encode(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%q came back as %q (%v)", s, got.Path, err)
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add("20261122T055415.168373Z-completed-e9da86d351cf9a76-f1d51ca93bc65b72596e77ba6b95cb9a254e73bd893a986465fbadca28789ef2-5b21f4b6e62a6167")
	f.Add("never-unknown-e9da86d351cf9a76-f1d51ca93bc65b72596e77ba6b95cb9a254e73bd893a986465fbadca28789ef2-0000000000000001")
	f.Add("-")
	f.Fuzz(func(t *testing.T, name string) {
		if e, ok := parseEntry(name); ok && !isName(e.name) {
			t.Fatal("an entry of no record")
		}
	})
}

func TestEntriesAreReadAsTheyAreWritten(t *testing.T) {
	name := nameOf(stet.ID{Scope: "s", Key: "k"})
	for _, h := range []stet.Head{
		{State: stet.Running, Version: 1, ID: stet.ID{Scope: "s", Key: "k"}},
		{State: stet.Unknown, Version: math.MaxInt64, DueAt: time.UnixMicro(1).UTC()},
		{State: stet.Expired, Version: 1 << 60, DueAt: time.UnixMicro(0).UTC().Add(math.MaxInt64)},
	} {
		path := entryOf(&h, name)
		e, ok := parseEntry(filepath.Base(path))
		if !ok || e.state != h.State || e.version != h.Version || e.name != name || e.scope != scopeDigest(h.Scope) {
			t.Errorf("%s is read as %+v", path, e)
		}
	}
}
