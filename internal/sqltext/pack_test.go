package sqltext

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// What is packed comes back, and in no other way: every byte more or less is refused.
func TestPackedComesBack(t *testing.T) {
	full := sample()
	full.Rules = stet.Rules{Retain: -1, FromCreation: true, OnLapse: stet.LapseAtomic}
	full.Note = &stet.Note{Who: "w\x00", Why: "\xff", Evidence: "e", Notice: "msg_1\x00"}
	full.Published, full.Reconciled, full.Kept, full.Took, full.Probes = true, true, stet.KeptStatus, time.Hour, 5
	full.Response.Trailer, full.Request = []stet.Field{{Name: "T", Value: ""}}, []byte("\x00")
	for name, r := range map[string]stet.Record{"full": full, "sample": sample(), "empty": {}} {
		var h stet.Head
		attributes := packAttributes(&r.Head)
		if err := unpackAttributes(attributes, &h); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := stet.Head{Published: r.Published, Reconciled: r.Reconciled, Kept: r.Kept, Rules: r.Rules, Took: r.Took, Probes: r.Probes, Note: r.Note, Meta: r.Meta}
		want.Rules.KeepExpired = 0
		if !reflect.DeepEqual(h, want) {
			t.Errorf("%s: attributes came back as %+v", name, h)
		}
		var f stet.Fingerprint
		if err := unpackFingerprint(packFingerprint(&r.Fingerprint), &f); err != nil || f != r.Fingerprint {
			t.Errorf("%s: the fingerprint came back as %v, %v", name, f, err)
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
		for n := range attributes {
			if unpackAttributes(attributes[:n], new(stet.Head)) == nil {
				t.Errorf("%s: %d of %d bytes of attributes were taken", name, n, len(attributes))
			}
		}
		if unpackAttributes(append(attributes, 0), new(stet.Head)) == nil {
			t.Errorf("%s: a byte more of attributes was taken", name)
		}
	}
}

// Damage is an error, whatever it is, and nothing is read beyond the end.
func FuzzUnpack(f *testing.F) {
	r := sample()
	f.Add(packAttributes(&r.Head), []byte("x"))
	f.Add(packExchange(r.ID, &r.Body), []byte("x"))
	f.Add(packFingerprint(&r.Fingerprint), []byte(nil))
	f.Fuzz(func(t *testing.T, b, body []byte) {
		var h stet.Head
		if unpackAttributes(b, &h) == nil && (h.Kept > stet.KeptStatus || !h.Rules.OnLapse.Valid()) {
			t.Error("an unknown value was taken")
		}
		if unpackFingerprint(b, &h.Fingerprint) == nil && !bytes.Equal(packFingerprint(&h.Fingerprint), b) {
			t.Error("a fingerprint is written in two ways")
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
