package stet_test

import (
	"bytes"
	"strconv"
	"sync/atomic"
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
	run := func(b *testing.B, q stet.Request, key stet.Key) {
		q.ID = stet.ID{Scope: "default", Key: key}
		d, err := e.Begin(b.Context(), q)
		if err != nil {
			b.Error(err)
			return
		}
		if d.Verdict != stet.Execute {
			return
		}
		d.Claim.Hold(b.Context(), nil)
		if err := d.Claim.Settle(b.Context(), outcome); err != nil {
			b.Error(err)
		}
		d.Claim.Close()
	}
	var n atomic.Int64
	fresh := func() stet.Key { return stet.Key("fresh-0000-0000-0000-" + strconv.FormatInt(n.Add(1), 10)) }
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			run(b, q, fresh())
		}
	})
	b.Run("replay", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			run(b, q, "known-0000-0000-0000-000000000000")
		}
	})
	b.Run("fingerprint", func(b *testing.B) {
		for b.Loop() {
			recipe.Fingerprint(&q.Subject)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				run(b, q, fresh())
			}
		})
	})
}
