package sqlite

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// BenchmarkReplays compares replays of 64 clients through gateways over memory, over SQLite, and
// over SQLite behind the cache that a gateway has by default, by turns in one run. The figures are
// replays a second, and medians of the ratios to memory.
func BenchmarkReplays(b *testing.B) {
	const conns, keys, each = 64, 64, 60 // each copy is read from the origin once in five seconds
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 200)) }))
	defer up.Close()
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	over := func(s stet.Store) *httptest.Server {
		e, err := stet.New(s, stet.Config{})
		if err != nil {
			b.Fatal(err)
		}
		g, err := gateway.New(e, gateway.Config{Upstream: target})
		if err != nil {
			b.Fatal(err)
		}
		server := httptest.NewServer(g)
		b.Cleanup(server.Close)
		return server
	}
	file := func(name string) stet.Store {
		s, err := sqlstore.Open(b.Context(), database(b, filepath.Join(b.TempDir(), name)), sqlstore.Config{Dialect: sqlstore.SQLite})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return s
	}
	cached, err := tierstore.New(tierstore.NewMemory(0), file("cached.db"), tierstore.Config{TTL: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	names := []string{"memory", "sqlite", "cached"}
	servers := []*httptest.Server{over(memstore.New(memstore.Config{})), over(file("plain.db")), over(cached)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * conns, MaxIdleConns: 6 * conns}}
	defer client.CloseIdleConnections()
	send := func(to string, i int) {
		r, err := http.NewRequest(http.MethodPost, to+"/v1/charges", strings.NewReader(`{"amount":1099}`))
		if err != nil {
			b.Error(err)
			return
		}
		r.Header.Set("Idempotency-Key", fmt.Sprintf("8e03978e-40d5-43e8-%017d", i%keys))
		res, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	burst := func(to string) float64 {
		began := time.Now()
		var all sync.WaitGroup
		for c := range conns {
			all.Go(func() {
				for i := range each {
					send(to, c*each+i)
				}
			})
		}
		all.Wait()
		return conns * each / time.Since(began).Seconds()
	}
	for _, s := range servers {
		burst(s.URL) // new keys
	}
	rates := make([][]float64, len(servers))
	for b.Loop() {
		for i, s := range servers {
			rates[i] = append(rates[i], burst(s.URL))
		}
	}
	for i, name := range names {
		ratios := make([]float64, len(rates[i]))
		for turn := range ratios {
			ratios[turn] = rates[i][turn] / rates[0][turn]
		}
		b.ReportMetric(slices.Sorted(slices.Values(rates[i]))[len(ratios)/2], name+"/s")
		b.ReportMetric(slices.Sorted(slices.Values(ratios))[len(ratios)/2], name+"-of-memory")
	}
	b.ReportMetric(0, "ns/op")
}
