package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/internal/rest"
)

// paymentsAPI is the sample upstream of the demo. Like most APIs it makes a charge for every
// request. It ignores idempotency keys, but stores them with its charges, so that a probe can ask
// for them.
//
//	POST /v1/charges   form fields amount=1999 [delay=3s] [crash=yes] [outage=before|after]
//	                   crash: makes the charge, then drops the connection
//	                   outage: the first request with a key is not answered, before or after
//	                   its charge is made
//	GET  /v1/charges   all charges; with ?key=K the first that came with this key, or 404
//	GET  /v1/search    the same with ?key=K, but it misses charges that were not answered
type paymentsAPI struct {
	mu      sync.Mutex
	ledger  []charge
	keys    sync.Map     // that have come
	waiting atomic.Int32 // requests
}

type charge struct {
	ID       string `json:"id"`
	Amount   int    `json:"amount"`
	key      string
	answered bool
}

const maxDelay = 20 * time.Second // under the gateway's execution timeout

func (a *paymentsAPI) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", a.charge)
	mux.HandleFunc("GET /v1/charges", a.list)
	mux.HandleFunc("GET /v1/search", func(w http.ResponseWriter, r *http.Request) {
		a.find(w, func(c *charge) bool { return c.answered && c.key == r.URL.Query().Get("key") })
	})
	return mux
}

func (a *paymentsAPI) charge(w http.ResponseWriter, r *http.Request) {
	amount, err := strconv.Atoi(r.PostFormValue("amount"))
	if err != nil || amount <= 0 {
		reply.JSON(w, http.StatusBadRequest, reply.Document, map[string]string{"error": "amount is a whole number over 0"})
		return
	}
	if delay, err := time.ParseDuration(r.PostFormValue("delay")); err == nil && !a.wait(r.Context(), delay) {
		return // the gateway never hangs up early: it has died, or this is another client
	}
	key := strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
	crash, outage := r.PostFormValue("crash") != "", a.outage(r.PostFormValue("outage"), key)
	var c charge
	if outage != "before" {
		c = a.take(amount, key, !crash && outage == "")
	}
	if outage != "" {
		a.wait(r.Context(), maxDelay)
	}
	if crash || outage != "" {
		panic(http.ErrAbortHandler) // the client gets no answer
	}
	reply.JSON(w, http.StatusCreated, reply.Document, c)
}

// outage returns when the request meets one; "": it meets none.
func (a *paymentsAPI) outage(when, key string) string {
	_, again := a.keys.LoadOrStore(key, true)
	return ifTrue(!again, when)
}

// wait reports false when the caller hangs up first.
func (a *paymentsAPI) wait(ctx context.Context, d time.Duration) bool {
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	return rest.For(ctx, min(d, maxDelay))
}

func (a *paymentsAPI) take(amount int, key string, answered bool) charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := charge{ID: fmt.Sprintf("ch_%d", len(a.ledger)+1), Amount: amount, key: key, answered: answered}
	a.ledger = append(a.ledger, c)
	return c
}

// find answers the first charge that matches.
func (a *paymentsAPI) find(w http.ResponseWriter, matches func(*charge) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.ledger {
		if matches(&a.ledger[i]) {
			reply.JSON(w, http.StatusOK, reply.Document, a.ledger[i])
			return
		}
	}
	reply.JSON(w, http.StatusNotFound, reply.Document, map[string]string{"error": "nothing was charged with this key"})
}

func (a *paymentsAPI) list(w http.ResponseWriter, r *http.Request) {
	if key := r.URL.Query().Get("key"); key != "" {
		a.find(w, func(c *charge) bool { return c.key == key })
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reply.JSON(w, http.StatusOK, reply.Document, map[string]any{"charges": len(a.ledger), "ledger": a.ledger})
}
