package stethttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// BenchmarkMiddleware measures what the layer adds to a handler, over memstore: 1 KiB request, 200
// B response. Bare and guarded requests are interleaved in one run; the figures are differences.
func BenchmarkMiddleware(b *testing.B) {
	body := payment(1024)
	for _, mode := range []struct {
		name string
		body stet.BodyMode
	}{{"raw", stet.BodyRaw}, {"json", stet.BodyAuto}} {
		b.Run(mode.name, func(b *testing.B) {
			engine, err := stet.New(memstore.New(memstore.Config{MaxKeys: 100 << 20}), stet.Config{})
			if err != nil {
				b.Fatal(err)
			}
			guarded := stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{Fingerprint: stet.Recipe{Body: mode.body}})(charge)
			compare(b, guarded, body)
		})
	}
}

func compare(b *testing.B, guarded http.Handler, body []byte) {
	const slice = 200
	var bare, fresh, replay time.Duration
	var bareAllocs, freshAllocs, replayAllocs float64
	known := newCall(body)
	known.key("known-0000-0000-0000-000000000000")
	known.serve(guarded)
	plain, next := newCall(body), newCall(body)
	for n := 0; b.Loop(); n++ {
		bare += timed(slice, func(int) { plain.serve(charge) })
		fresh += timed(slice, func(i int) {
			next.key(strconv.FormatInt(int64(n*slice+i), 36) + "-8e03978e-40d5-43e8-bc93")
			next.serve(guarded)
		})
		replay += timed(slice, func(int) { known.serve(guarded) })
	}
	bareAllocs = testing.AllocsPerRun(1000, func() { plain.serve(charge) })
	fresh0 := 0
	freshAllocs = testing.AllocsPerRun(1000, func() {
		fresh0++
		next.header["Idempotency-Key"][0] = keys[fresh0%len(keys)]
		next.serve(guarded)
	})
	replayAllocs = testing.AllocsPerRun(1000, func() { known.serve(guarded) })
	total := float64(b.N * slice)
	b.ReportMetric(float64(bare)/total, "ns/bare")
	b.ReportMetric(float64(fresh-bare)/total, "ns-over/new")
	b.ReportMetric(float64(replay-bare)/total, "ns-over/replay")
	b.ReportMetric(freshAllocs-bareAllocs, "allocs-over/new")
	b.ReportMetric(replayAllocs-bareAllocs, "allocs-over/replay")
	b.ReportMetric(0, "ns/op")
}

var keys = func() (k [4096]string) {
	for i := range k {
		k[i] = fmt.Sprintf("alloc-key-%026d", i)
	}
	return k
}()

func timed(n int, f func(int)) time.Duration {
	began := time.Now()
	for i := range n {
		f(i)
	}
	return time.Since(began)
}

// call is a request and a writer without the cost of a connection: what net/http would hand over.
type call struct {
	r      *http.Request
	header http.Header
	out    http.Header
	reader bytes.Reader
	body   []byte
	status int
	n      int
}

func newCall(body []byte) *call {
	c := &call{body: body, header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"bench"}}, out: http.Header{}}
	c.r = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/v1/charges"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header, ContentLength: int64(len(body)), Host: "api.example"}
	c.r.Body = io.NopCloser(&c.reader)
	return c
}

func (c *call) key(k string) { c.header["Idempotency-Key"] = []string{k} }

func (c *call) serve(h http.Handler) {
	c.reader.Reset(c.body)
	clear(c.out)
	c.status, c.n = 0, 0
	h.ServeHTTP(c, c.r)
	if c.status != http.StatusCreated || c.n != len(answer) {
		panic(fmt.Sprintf("status %d, %d bytes", c.status, c.n))
	}
}

func (c *call) Header() http.Header { return c.out }
func (c *call) WriteHeader(s int)   { c.status = s }
func (c *call) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

var answer = bytes.Repeat([]byte("0123456789"), 20)

var charge = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer)
})

func payment(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"amount":1099,"currency":"eur","capture":true,"metadata":{"order":"6735","channel":"web"},"items":[`)
	for i := 0; b.Len() < size-120; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"A-%05d","quantity":%d,"price":%d.%02d}`, i*37, i+1, i*13, i%100)
	}
	b.WriteString(`],"description":"`)
	b.Write(bytes.Repeat([]byte("x"), max(0, size-b.Len()-2)))
	b.WriteString(`"}`)
	return b.Bytes()
}
