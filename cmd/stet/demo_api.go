package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// paymentsAPI is the sample upstream of the demo. Like most APIs it makes a charge for every request.
// It ignores idempotency keys, but stores them with its charges, so that a probe can ask for them.
//
//	POST /v1/charges   form fields amount=1999 [delay=3s] [crash=yes]
//	                   crash: makes the charge, then drops the connection
//	GET  /v1/charges   all charges; with ?key=K the first that came with this key, or 404
type paymentsAPI struct {
	mu     sync.Mutex
	ledger []charge
}

type charge struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
	key    string
}

const maxDelay = 20 * time.Second // under the gateway's execution timeout

func (a *paymentsAPI) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", a.charge)
	mux.HandleFunc("GET /v1/charges", a.list)
	return mux
}

func (a *paymentsAPI) charge(w http.ResponseWriter, r *http.Request) {
	amount, err := strconv.Atoi(r.PostFormValue("amount"))
	if err != nil || amount <= 0 {
		reply(w, http.StatusBadRequest, map[string]string{"error": "amount is a whole number over 0"})
		return
	}
	if delay, err := time.ParseDuration(r.PostFormValue("delay")); err == nil {
		t := time.NewTimer(min(delay, maxDelay))
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done(): // the gateway never hangs up early; this is another client
			return
		}
	}
	c := a.take(amount, strings.Trim(r.Header.Get("Idempotency-Key"), `"`))
	if r.PostFormValue("crash") != "" {
		panic(http.ErrAbortHandler) // the charge is made, and the client gets no answer
	}
	reply(w, http.StatusCreated, c)
}

func (a *paymentsAPI) take(amount int, key string) charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := charge{ID: fmt.Sprintf("ch_%d", len(a.ledger)+1), Amount: amount, key: key}
	a.ledger = append(a.ledger, c)
	return c
}

func (a *paymentsAPI) list(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if key := r.URL.Query().Get("key"); key != "" {
		i := slices.IndexFunc(a.ledger, func(c charge) bool { return c.key == key })
		if i < 0 {
			reply(w, http.StatusNotFound, map[string]string{"error": "nothing was charged with this key"})
			return
		}
		reply(w, http.StatusOK, a.ledger[i])
		return
	}
	reply(w, http.StatusOK, map[string]any{"charges": len(a.ledger), "ledger": a.ledger})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
