// Quickstart is an HTTP service with one route that is safe to retry.
//
//	go run ./examples/quickstart &
//	curl -i localhost:3000/charges -H 'Idempotency-Key: "a-key-of-yours"' -d '{"amount": 1099}'
//
// Run the curl line twice: the second answer is the first one.
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

func main() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	idempotent := stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{})
	http.Handle("POST /charges", idempotent(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "charged at", time.Now())
	})))
	log.Fatal(http.ListenAndServe("localhost:3000", nil))
}
