package stethttp_test

import (
	"strconv"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// BenchmarkPath takes one way through the layer at a time, for profiles and for bytes per request:
// the handler itself, a new key, and a replay.
func BenchmarkPath(b *testing.B) {
	engine, err := stet.New(memstore.New(memstore.Config{MaxKeys: 100 << 20}), stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	guarded := stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{Fingerprint: stet.Recipe{Body: stet.BodyRaw}})(charge)
	c := newCall(payment(1024))
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.serve(charge)
		}
	})
	var n int64
	c.key("")
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			c.header["Idempotency-Key"][0] = strconv.FormatInt(n, 36) + "-8e03978e-40d5-43e8-bc93"
			c.serve(guarded)
		}
	})
	b.Run("replay", func(b *testing.B) {
		c.key("known-0000-0000-0000-000000000000")
		b.ReportAllocs()
		for b.Loop() {
			c.serve(guarded)
		}
	})
}
