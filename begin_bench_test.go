package stet_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// BenchmarkBegin measures decisions over memstore with a body of 1 KiB: a new key with its outcome,
// and a retry of a completed one, which costs the fingerprint, the look at the record and no more.
func BenchmarkBegin(b *testing.B) {
	e, err := stet.New(memstore.New(memstore.Config{MaxKeys: 100 << 20}), stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	recipe, err := stet.Recipe{Body: stet.BodyRaw}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	q := stet.Request{Recipe: recipe, Subject: stet.Subject{Method: "POST", Path: "/charges", Body: bytes.Repeat([]byte("x"), 1024)}}
	outcome := stet.Outcome{Response: stet.Response{Status: 201, Body: make([]byte, 200)}}
	run := func(b *testing.B, key stet.Key) {
		q.ID = stet.ID{Scope: "default", Key: key}
		d, err := e.Begin(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if d.Verdict != stet.Execute {
			return
		}
		d.Claim.Hold(b.Context(), nil)
		if err := d.Claim.Settle(b.Context(), outcome); err != nil {
			b.Fatal(err)
		}
		d.Claim.Close()
	}
	n := 0
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			run(b, stet.Key("fresh-0000-0000-0000-"+strconv.Itoa(n)))
		}
	})
	b.Run("replay", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			run(b, "known-0000-0000-0000-000000000000")
		}
	})
	b.Run("fingerprint", func(b *testing.B) {
		for b.Loop() {
			recipe.Fingerprint(&q.Subject)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			q := q
			for p.Next() {
				d, err := e.Begin(b.Context(), q)
				if err != nil || d.Verdict != stet.Replay {
					b.Error(d.Verdict, err)
					return
				}
			}
		})
	})
}
