package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/store/memstore"
)

// BenchmarkIncidents groups as many unknown records as are grouped at most, each with an answer of
// its last probe.
func BenchmarkIncidents(b *testing.B) {
	e := must(stet.New(memstore.New(memstore.Config{}), stet.Config{Pepper: []byte("pepper")}))
	var wg sync.WaitGroup
	const each = 625
	for w := range 8 {
		wg.Go(func() {
			for i := range each {
				id := stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("k", w*each+i))}
				d, err := e.Begin(b.Context(), stet.Request{ID: id, Route: "POST /v1/charges", Subject: stet.Subject{Method: "POST", Path: "/v1/charges"}})
				if err != nil {
					b.Error(err)
					return
				}
				d.Claim.Unknown("lease-lapsed")
				if err := d.Claim.Settle(b.Context(), stet.Outcome{}); err != nil {
					b.Error(err)
				}
				h := d.Claim.Head()
				got, _, err := e.Operator().Probing(b.Context(), &h, stet.Never, nil)
				if err != nil {
					b.Error(err)
				}
				_ = e.Operator().AuditOf(b.Context(), &got, stet.Note{Who: "r", Action: "probe", Evidence: "missing, status 404, in 12ms"})
			}
		})
	}
	wg.Wait()
	for b.Loop() {
		h := admin.New(e, admin.Config{}) // which shares no reading with the last one
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://localhost/api/v1/incidents", nil)
		r.RemoteAddr = "127.0.0.1:9"
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
