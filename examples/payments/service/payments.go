package service

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/flow"
)

// payment is the state of the flow. It is stored with each phase.
type payment struct {
	ID       string
	Order    order
	Charge   string // the provider's id
	Declined bool
	Scope    string // of the record, for the row
	Key      string
}

// newPayments is the flow: reserve (rows), charge (the provider), book (rows).
func (s *Service) newPayments() (*flow.Flow[payment], error) {
	// After a crash the provider is asked about it. A charge takes no longer than a lease: what it
	// does not know by then never comes.
	charge := flow.Foreign("charge", s.charge).Lookup(s.charged).Settle(s.Lease)
	if s.HonoursKeys {
		charge = charge.HonoursKey() // it is sent again instead, with the same key
	}
	return flow.New(flow.Config[payment]{
		Name: "payment", Engine: s.engine, DB: s.DB, Backoff: s.Every,
		Answer: func(p *payment) stet.Response {
			if p.Declined {
				return result{Reference: p.Order.Reference, State: "declined"}.response(http.StatusPaymentRequired)
			}
			return result{Reference: p.Order.Reference, State: "paid", Provider: p.Charge}.response(http.StatusCreated)
		},
	}, flow.Local("reserve", s.reserve), charge, flow.Local("book", s.book))
}

// Completer finishes payments whose client does not come back.
func (s *Service) Completer() flow.Completer {
	return flow.Completer{Engine: s.engine, Flows: []flow.Resumer{s.payments}, Every: s.Every}
}

// pay runs the flow, or goes on with it.
func (s *Service) pay(w http.ResponseWriter, r *http.Request) {
	claim := stet.ClaimFrom(r.Context())
	id := claim.ID()
	p := payment{ID: "pay_" + rand.Text(), Scope: string(id.Scope), Key: string(id.Key)}
	if !p.Order.read(w, r) {
		return
	}
	answer, err := s.payments.Run(r.Context(), claim, p)
	if err != nil { // suspended or unknown: the guard tells the client
		reply(w, http.StatusServiceUnavailable, result{Error: "not finished"})
		return
	}
	write(w, answer)
}

func (s *Service) reserve(ctx context.Context, tx *sql.Tx, p *payment) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO payments (id, reference, amount, state, scope, key) VALUES (?, ?, ?, 'reserved', ?, ?)",
		p.ID, p.Order.Reference, p.Order.Amount, p.Scope, p.Key)
	return err
}

func (s *Service) charge(ctx context.Context, call *flow.Call, p *payment) error {
	err := call.Do(ctx, func(ctx context.Context, key string) error {
		made, err := s.Provider.Create(ctx, key, p.Order.Card, provider.Effect{Kind: "charge", Reference: p.Order.Reference, Amount: p.Order.Amount})
		p.Charge = made.ID
		return err
	})
	switch {
	case errors.Is(err, provider.ErrDeclined): // not flow.Decline: what was reserved has to be given back
		p.Declined = true
		return nil
	case errors.Is(err, provider.ErrNothing):
		return flow.RetryLater(err)
	case err != nil:
		return flow.Maybe(err)
	}
	call.Learned(p.Charge)
	return nil
}

// charged says whether the charge of a run that crashed was made.
func (s *Service) charged(ctx context.Context, key string, p *payment) (bool, error) {
	e, found, err := s.Provider.Find(ctx, key)
	p.Charge = e.ID
	return found, err
}

func (s *Service) book(ctx context.Context, tx *sql.Tx, p *payment) error {
	state := "paid"
	if p.Declined {
		state = "declined"
	}
	_, err := tx.ExecContext(ctx, "UPDATE payments SET state = ?, charge = ? WHERE id = ?", state, p.Charge, p.ID)
	return err
}
