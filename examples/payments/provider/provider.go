// Package provider is a payment provider to try things with: it moves no money, but keeps a ledger
// of what it would have moved, and misbehaves on request as real ones do.
//
//	POST /v1/charges, /v1/refunds, /v1/payouts   {"reference":"order-7","amount":1999,"card":"ok"}
//	GET  /v1/effects?key=K or ?reference=R       what was really done, a list
//
// What the card is called decides how a new effect goes: "decline" refuses it for good, "drop" does
// it and closes the connection, "hang" does it and never answers, anything else does it.
package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Horizon is what the provider documents: a request is carried out within this time after it was
// sent, or never. [Client] says in each when that is over (Not-After), and the provider looks at it
// as it writes the ledger.
const Horizon = 500 * time.Millisecond

// Server is the provider.
type Server struct {
	Ledger *Ledger
	// IgnoreKeys: every request is carried out, whether its Idempotency-Key is known or not.
	IgnoreKeys bool
}

const maxHang = 20 * time.Second

// Handler serves the API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/{kind}", s.create)
	mux.HandleFunc("GET /v1/effects", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		reply(w, http.StatusOK, s.Ledger.find(q.Get("key"), q.Get("reference")))
	})
	return mux
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var in order
	kind, ok := strings.CutSuffix(r.PathValue("kind"), "s")
	if !ok || json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in) != nil || in.Amount <= 0 {
		reply(w, http.StatusBadRequest, "send an amount over 0")
		return
	}
	if in.Card == "decline" {
		reply(w, http.StatusPaymentRequired, "the card was declined")
		return
	}
	notAfter, err := time.Parse(time.RFC3339Nano, r.Header.Get("Not-After"))
	if err != nil {
		reply(w, http.StatusBadRequest, "send Not-After")
		return
	}
	key := r.Header.Get("Idempotency-Key")
	e, made, err := s.Ledger.add(Effect{Kind: kind, Key: key, Reference: in.Reference, Amount: in.Amount}, notAfter, !s.IgnoreKeys && key != "")
	switch {
	case errors.Is(err, errTooLate):
		reply(w, http.StatusRequestTimeout, err.Error())
		return
	case err != nil:
		reply(w, http.StatusInternalServerError, "the ledger cannot be written")
		return
	}
	switch {
	case made && in.Card == "drop":
		panic(http.ErrAbortHandler)
	case made && in.Card == "hang":
		t := time.NewTimer(maxHang)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	reply(w, http.StatusCreated, e)
}

// order is what a request asks for.
type order struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Card      string `json:"card"`
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
