package sqltext

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// What is packed comes back, and in no other way: every byte more or less is refused.
func TestPackedComesBack(t *testing.T) {
	full := sample()
	full.Rules = stet.Rules{Retain: -1, FromCreation: true, OnLapse: stet.LapseAtomic}
	full.Note = &stet.Note{Who: "w\x00", Why: "\xff", Evidence: "e", Notice: "msg_1\x00"}
	full.Published, full.Reconciled, full.Kept, full.Took, full.Probes = true, true, stet.KeptStatus, time.Hour, 5
	full.Tag = "no id"
	full.Response.Trailer, full.Request = []stet.Field{{Name: "T", Value: ""}}, []byte("\x00")
	for name, r := range map[string]stet.Record{"full": full, "sample": sample(), "empty": {}} {
		var h stet.Head
		attributes := packAttributes(&r.Head)
		if err := codec.Head(string(attributes), &h); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := stet.Head{Published: r.Published, Reconciled: r.Reconciled, Kept: r.Kept, Rules: r.Rules, Took: r.Took, Probes: r.Probes,
			Note: r.Note, Meta: r.Meta, Tag: r.Tag, Fingerprint: r.Fingerprint}
		want.Rules.KeepExpired, want.Fingerprint.Sum = 0, [32]byte{}
		if !reflect.DeepEqual(h, want) {
			t.Errorf("%s: attributes came back as %+v", name, h)
		}
		var body []byte
		if r.Response != nil {
			body = r.Response.Body
		}
		exchange := packExchange(r.ID, &r.Body)
		if b, err := unpackExchange(r.ID, exchange, body); err != nil || !reflect.DeepEqual(b, r.Body) {
			t.Errorf("%s: the exchange came back as %+v, %v", name, b, err)
		}
		if _, err := unpackExchange(stet.ID{Scope: r.Scope, Key: r.Key + "x"}, exchange, body); err == nil {
			t.Errorf("%s: the body of another record was taken", name)
		}
		again := func(b []byte) bool { // as the checksum of the head finds out
			var h stet.Head
			return codec.Head(string(b), &h) == nil && reflect.DeepEqual(h, want)
		}
		for n := range attributes {
			if again(attributes[:n]) {
				t.Errorf("%s: %d of %d bytes of attributes were taken", name, n, len(attributes))
			}
		}
		if again(append(attributes, 0)) {
			t.Errorf("%s: a byte more of attributes was taken", name)
		}
	}
}

// Damage is an error, whatever it is, and nothing is read beyond the end.
func FuzzUnpack(f *testing.F) {
	r := sample()
	f.Add(packAttributes(&r.Head), []byte("x"))
	f.Add(packExchange(r.ID, &r.Body), []byte("x"))
	f.Fuzz(func(t *testing.T, b, body []byte) {
		var h stet.Head
		if codec.Head(string(b), &h) == nil && (h.Kept > stet.KeptStatus || !h.Rules.OnLapse.Valid()) {
			t.Error("an unknown value was taken")
		}
		if _, err := unpackExchange(r.ID, b, body); err == nil && bodySum(r.ID, b[4:], body) != binary.BigEndian.Uint32(b) {
			t.Error("another checksum was taken")
		}
		if len(b) >= 4 { // beyond the checksum, which hides what is behind it
			b = bytes.Clone(b)
			binary.BigEndian.PutUint32(b, bodySum(r.ID, b[4:], body))
			if got, err := unpackExchange(r.ID, b, body); err == nil && got.Response == nil && len(body) > 0 {
				t.Error("a body without a response was taken")
			}
		}
	})
}
