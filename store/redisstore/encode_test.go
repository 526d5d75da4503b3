package redisstore

import (
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

const instants = "179526934400000117952693440000020000000000000000"

func full() stet.Record {
	return stet.Record{
		Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: "k\x00\xff"}, Version: 1<<62 + 3, State: stet.Unknown,
			Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{1, 31: 2}}, Attempt: 3, Point: "charged", Cause: "panic", Holder: "host:1",
			Route: "charges", Method: "POST", Path: "/v1/charges", TraceID: "t", Meta: map[string]string{"a": "1", "b": ""},
			DownstreamKey: "dk", DownstreamID: "ch_1", Status: 201, Size: 1 << 40, Kept: stet.KeptHeader, Published: true, Escalated: true, Probes: 7,
			Rules: stet.Rules{Retain: time.Hour, KeepExpired: time.Minute, FromCreation: true, OnLapse: stet.LapseResume}, Took: time.Second,
			Note: &stet.Note{Who: "w", Why: "y", Evidence: "e", Notice: "msg_1"}, DueIn: 90 * time.Second},
		Body: stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}},
			Trailer: []stet.Field{{Name: "T", Value: ""}}, Body: []byte("body")}, Request: []byte{}, Progress: []byte("p")},
	}
}

func encoded(r *stet.Record) (value, member string) {
	var m, w writer
	m.member(r.ID)
	w.record(&r.Head, &r.Body, crc32.Checksum(m, castagnoli))
	return instants + string(w), string(m)
}

func decoded(value, member string) (r stet.Record, ok bool) {
	d := decoder{value: value, bytes: []byte(value), member: member, owner: crc32.Checksum([]byte(member), castagnoli)}
	return r, d.head(&r.Head) && d.rest(&r.Body)
}

// What goes in comes out, its instants from the server's clock.
func TestRoundTrip(t *testing.T) {
	bare := stet.Record{Head: stet.Head{ID: stet.ID{Key: "k"}, Version: 1, State: stet.Running, DueIn: stet.Never}}
	long := full()
	long.Key, long.Response.Body = stet.Key(strings.Repeat("k", 300)), make([]byte, 100_000)
	for _, r := range []stet.Record{full(), bare, long} {
		got, ok := decoded(encoded(&r))
		want := r
		want.CreatedAt, want.UpdatedAt, want.DueIn = time.UnixMicro(1795269344000001).UTC(), time.UnixMicro(1795269344000002).UTC(), 0
		if r.DueIn >= 0 {
			want.DueAt = want.UpdatedAt.Add(r.DueIn)
		}
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%v:\ngot  %+v\nwant %+v", ok, got, want)
		}
	}
}

// A record under another's name is refused: its seals cover whose it is.
func TestRecordOfAnother(t *testing.T) {
	r := full()
	value, _ := encoded(&r)
	r.Key = "another"
	_, member := encoded(&r)
	if _, ok := decoded(value, member); ok {
		t.Error("it was taken for another's")
	}
}

// Nothing that a server can answer makes decoding panic, and what is taken for a record is one.
func FuzzDecode(f *testing.F) {
	r := full()
	value, member := encoded(&r)
	f.Add(value, member)
	f.Add(value[:atNames], member)
	f.Add("", "")
	f.Fuzz(func(t *testing.T, value, member string) {
		got, ok := decoded(value, member)
		if !ok {
			return
		}
		if err := codec.Check(&stet.Head{Version: max(1, got.Version>>1), State: got.State, Kept: got.Kept, Rules: got.Rules}); err != nil {
			t.Error(err)
		}
		if again, ok := decoded(encoded(&got)); ok && !reflect.DeepEqual(again.Body, got.Body) {
			t.Errorf("its body changes:\n%+v\n%+v", got.Body, again.Body)
		}
	})
}
