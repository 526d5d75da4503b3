// Quickstart: one POST route made safe to retry.
//
//	go run ./examples/quickstart &
//	curl -i localhost:3000/charges -H 'Idempotency-Key: "a-key-of-yours"' -d '{"amount": 1099}'
//
// Run the curl line twice: the second answer is the first one, and nobody pays twice.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

func main() {
	mux, err := routes()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on http://localhost:3000")
	log.Fatal(http.ListenAndServe("localhost:3000", mux))
}

func routes() (*http.ServeMux, error) {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		return nil, err
	}
	idempotent := stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{})
	mux := http.NewServeMux()
	mux.Handle("POST /charges", idempotent(http.HandlerFunc(charge)))
	return mux, nil
}

var charges atomic.Int64

func charge(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Amount int64 `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, "send JSON with an amount", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"charge":%d,"amount":%d}`+"\n", charges.Add(1), order.Amount)
}
