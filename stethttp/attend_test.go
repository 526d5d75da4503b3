package stethttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// A handler that ignores its context is known to be running until it returns, or panics: settling
// time begins then.
func TestAHandlerThatIgnoresItsContextIsAttended(t *testing.T) { // A03, I14
	for name, end := range map[string]func(w http.ResponseWriter){
		"it says nothing":              func(http.ResponseWriter) {},
		"it fails":                     func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"it panics":                    func(http.ResponseWriter) { panic("at last") },
		"it writes into a dead answer": func(w http.ResponseWriter) { _, _ = w.Write([]byte("late")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: stet.Policy{Execution: 200 * time.Millisecond}})
				if err != nil {
					t.Fatal(err)
				}
				back := make(chan struct{})
				h := stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					<-back
					end(w)
				}))
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("1"))
				r.Header.Set("Idempotency-Key", "k")
				w, served := httptest.NewRecorder(), make(chan any)
				go func() {
					defer func() { served <- recover() }()
					h.ServeHTTP(w, r)
				}()
				id := stet.ID{Scope: stethttp.DefaultScope, Key: "k"}
				for range 20 {
					<-time.After(10 * time.Second)
					have, err := e.Get(t.Context(), id)
					if err != nil || have.State != stet.Unknown || !have.Attended() {
						t.Fatalf("%v, attended %v, %v", have.State, have.Attended(), err)
					}
				}
				close(back)
				<-served
				returned := time.Now()
				<-time.After(time.Second)
				have, err := e.Get(t.Context(), id)
				late := have.State == stet.Completed // what it answered on purpose is its outcome
				if err != nil || have.Attended() || !late && have.Idle() != time.Since(returned) {
					t.Errorf("%v, attended %v, idle for %v of %v, %v", have.State, have.Attended(), have.Idle(), time.Since(returned), err)
				}
				if w.Code != http.StatusGatewayTimeout {
					t.Errorf("the client was told %d", w.Code)
				}
			})
		})
	}
}
