package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/reconcile"
)

// refund is one call of the provider and nothing else: the guard alone protects it. The provider
// gets the claim's key and not the client's: see [stet.Claim.DownstreamKey]. It says what it knows:
// by its answer, that it is done or refused; by NotExecuted, that provably nothing happened; by
// Unknown, that it cannot be known.
func (s *Service) refund(w http.ResponseWriter, r *http.Request) {
	var in order
	if !in.read(w, r) {
		return
	}
	claim := stet.ClaimFrom(r.Context())
	made, err := s.Provider.Create(r.Context(), claim.DownstreamKey(), in.Card, provider.Effect{Kind: "refund", Reference: in.Reference, Amount: in.Amount})
	switch {
	case errors.Is(err, provider.ErrDeclined):
		reply(w, http.StatusPaymentRequired, result{Reference: in.Reference, State: "declined"})
	case errors.Is(err, provider.ErrNothing):
		claim.NotExecuted("provider-unreachable")
		reply(w, http.StatusServiceUnavailable, result{Error: "the provider cannot be reached"})
	case err != nil:
		claim.Unknown("provider-gave-no-answer")
		reply(w, http.StatusBadGateway, result{Error: "the provider gave no answer"})
	default:
		write(w, done(made))
	}
}

// done is the answer to what the provider has done, now or as it turned out later.
func done(e provider.Effect) stet.Response {
	return result{Reference: e.Reference, State: e.Kind, Provider: e.ID}.response(http.StatusCreated)
}

// find is the Resolver of what is unknown: it asks the provider. That there is no trace is a proof
// here, because Find waits until the call cannot be carried out any more.
func (s *Service) find(ctx context.Context, h stet.Head) (reconcile.Finding, error) {
	switch h.Route {
	case payouts: // rows alone, and they were rolled back with their run
		return reconcile.Finding{Effect: reconcile.Voided, Evidence: "the transaction was not committed"}, nil
	case payments: // the flow knows which of its calls is in doubt, and goes on once that is known
		if known, err := s.payments.Reconcile(ctx, h, "reconciler"); known || err != nil {
			return reconcile.Finding{Effect: reconcile.GoesOn}, err
		}
	}
	e, found, err := s.Provider.Find(ctx, h.LifeKey()) // the claim's DownstreamKey
	switch {
	case err != nil:
		return reconcile.Finding{}, err
	case !found:
		return reconcile.Finding{Effect: reconcile.Voided, Evidence: fmt.Sprintf("the ledger has nothing %s after it could have", provider.Horizon)}, nil
	}
	answer := done(e)
	return reconcile.Finding{Effect: reconcile.Happened, Response: &answer, Evidence: "the ledger has " + e.ID}, nil
}
