package sqlite

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/store/sqlstore"
)

// BenchmarkGateway compares a bare ReverseProxy with the gateway over SQLite that syncs every
// commit: new keys and replays, by turns in one run. The figures are ratios to the bare proxy.
func BenchmarkGateway(b *testing.B) {
	for _, conns := range []int{64, 256} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) { benchGateway(b, conns) })
	}
}

func benchGateway(b *testing.B, conns int) {
	answer := bytes.Repeat([]byte("0123456789"), 20)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	}))
	defer up.Close()
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 256}
	defer transport.CloseIdleConnections()
	bare := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() }})
	defer bare.Close()
	db := database(b, filepath.Join(b.TempDir(), "stet.db"))
	s, err := sqlstore.Open(b.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := gateway.New(e, gateway.Config{Upstream: target})
	if err != nil {
		b.Fatal(err)
	}
	guarded := httptest.NewServer(g)
	defer guarded.Close()

	each := 1024 / conns
	const body = `{"amount":1099,"currency":"eur","description":"a hundred bytes of payment, more or less"}`
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * conns, MaxIdleConns: 4 * conns}}
	defer client.CloseIdleConnections()
	var n atomic.Int64
	fresh := func() string { return fmt.Sprintf("8e03978e-40d5-43e8-%017d", n.Add(1)) }
	known := func() string { return "8e03978e-40d5-43e8-bc93-known-key-01" }
	burst := func(to string, key func() string) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for range conns {
			wg.Go(func() {
				for range each {
					r, err := http.NewRequest(http.MethodPost, to+"/v1/charges", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Idempotency-Key", key())
					res, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if res.StatusCode != http.StatusCreated {
						b.Errorf("status %d", res.StatusCode)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	burst(bare.URL, fresh)
	first, err := http.NewRequest(http.MethodPost, guarded.URL+"/v1/charges", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	first.Header.Set("Content-Type", "application/json")
	first.Header.Set("Idempotency-Key", known())
	res, err := client.Do(first) // alone: 64 firsts would meet each other in progress
	if err != nil {
		b.Fatal(err)
	}
	_ = res.Body.Close()
	var news, replays []float64
	var total time.Duration
	for b.Loop() {
		plain := burst(bare.URL, fresh)
		took := burst(guarded.URL, fresh)
		total += took
		news = append(news, float64(plain)/float64(took))
		replays = append(replays, float64(plain)/float64(burst(guarded.URL, known)))
	}
	slices.Sort(news)
	slices.Sort(replays)
	b.ReportMetric(news[len(news)/2], "new/bare")
	b.ReportMetric(replays[len(replays)/2], "replay/bare")
	b.ReportMetric(float64(len(news)*conns*each)/total.Seconds(), "new/s")
	b.ReportMetric(0, "ns/op")
}
