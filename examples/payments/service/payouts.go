package service

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// payout writes rows of the own database only, one of them a promise: the row, the message, the
// record and its answer are one transaction. The money moves later, by a Worker.
func (s *Service) payout(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
	var in order
	if !in.read(w, r) {
		return
	}
	if err := s.promise(r.Context(), tx, outbox.RecordOf(stet.ClaimFrom(r.Context())), in); err != nil {
		reply(w, http.StatusServiceUnavailable, result{Error: "the database has to be asked again"}) // 5xx rolls back
		return
	}
	reply(w, http.StatusCreated, result{Reference: in.Reference, State: "promised"})
}

func (s *Service) promise(ctx context.Context, tx *sql.Tx, record outbox.Record, in order) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO payouts (reference, amount, scope, key) VALUES (?, ?, ?, ?)",
		in.Reference, in.Amount, string(record.Scope), string(record.Key)); err != nil {
		return fmt.Errorf("payout: %w", err)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return s.box.Add(ctx, tx, outbox.Message{Topic: payouts, Record: record, Payload: body, KeyHonoured: true})
}

// Worker delivers the payouts. It may rely on one effect per key with a provider that honours keys;
// with another one, because send asks what an attempt before it has done. observe may be nil.
func (s *Service) Worker(observe func(outbox.Event)) outbox.Worker {
	return outbox.Worker{DB: s.DB, Dialect: sqlstore.SQLite, Handler: s.send,
		Lease: s.Lease, Backoff: s.Every, Poll: s.Every, Concurrency: 4, Observe: observe}
}

func (s *Service) send(ctx context.Context, d *outbox.Delivery) outbox.Result {
	var in order
	if err := json.Unmarshal(d.Payload, &in); err != nil {
		return outbox.Decline("the message cannot be read")
	}
	made, found, err := provider.Effect{}, false, error(nil)
	if d.Attempt > 1 && !s.HonoursKeys {
		if made, found, err = s.Provider.Find(ctx, d.DownstreamKey); err != nil {
			return outbox.Maybe(err)
		}
	}
	if !found {
		made, err = s.Provider.Create(ctx, d.DownstreamKey, in.Card, provider.Effect{Kind: "payout", Reference: in.Reference, Amount: in.Amount})
	}
	switch {
	case errors.Is(err, provider.ErrDeclined):
		return outbox.Decline("the provider refused it")
	case errors.Is(err, provider.ErrNothing):
		return outbox.Retry(0, err)
	case err != nil:
		return outbox.Maybe(err)
	}
	if err := d.Downstream(ctx, made.ID); err != nil { // for people; the payout is made all the same
		return outbox.Maybe(err)
	}
	return outbox.Delivered()
}
