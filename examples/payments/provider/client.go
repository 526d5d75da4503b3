package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Every error of [Client.Create] is one of these or means that it is unknown: the effect may be
// there.
var (
	// ErrDeclined is a final no.
	ErrDeclined = errors.New("provider: declined")
	// ErrNothing: provably nothing was done; the same may be asked again later.
	ErrNothing = errors.New("provider: nothing was done")
)

// Client asks the provider at URL.
type Client struct {
	URL  string
	HTTP *http.Client // its Timeout bounds a call
}

// Create asks for one effect: e.Kind, e.Reference and e.Amount of it, from card.
func (c Client) Create(ctx context.Context, key, card string, e Effect) (Effect, error) {
	body, err := json.Marshal(order{e.Reference, e.Amount, card})
	if err != nil {
		return Effect{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/"+e.Kind+"s", bytes.NewReader(body))
	if err != nil {
		return Effect{}, err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Not-After", time.Now().Add(Horizon).Format(time.RFC3339Nano))
	// net/http sends a request with an Idempotency-Key a second time by itself, when a connection
	// it had used before breaks. Only some providers can take that: without GetBody it cannot.
	r.GetBody = nil
	w, err := c.HTTP.Do(r)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return Effect{}, fmt.Errorf("%w: %w", ErrNothing, err)
		}
		return Effect{}, fmt.Errorf("provider: %w", err)
	}
	defer func() { _ = w.Body.Close() }()
	switch w.StatusCode {
	case http.StatusCreated:
		var made Effect
		if err := json.NewDecoder(w.Body).Decode(&made); err != nil {
			return Effect{}, fmt.Errorf("provider: the answer was cut off: %w", err)
		}
		return made, nil
	case http.StatusPaymentRequired:
		return Effect{}, ErrDeclined
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return Effect{}, fmt.Errorf("%w: it answered %d", ErrNothing, w.StatusCode)
	}
	return Effect{}, fmt.Errorf("provider: it answered %d", w.StatusCode)
}

// Find asks whether there is an effect with this key. It is for calls that were made in the past,
// by a process that is gone or has given up. A fresh "no" would be no proof, for such a call may
// still be on its way; so Find asks again after [Horizon], when it cannot be carried out any more.
func (c Client) Find(ctx context.Context, key string) (e Effect, found bool, err error) {
	over := time.NewTimer(Horizon)
	defer over.Stop()
	all, err := c.Effects(ctx, url.Values{"key": {key}})
	if err == nil && len(all) == 0 {
		select {
		case <-over.C:
			all, err = c.Effects(ctx, url.Values{"key": {key}})
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil || len(all) == 0 {
		return Effect{}, false, err
	}
	return all[0], true, nil
}

// Effects lists what the ledger has: see [Server] for the query.
func (c Client) Effects(ctx context.Context, query url.Values) (all []Effect, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/v1/effects?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	w, err := c.HTTP.Do(r)
	if err != nil {
		if named, ok := errors.AsType[*url.Error](err); ok { // its text has the key
			err = named.Err
		}
		return nil, fmt.Errorf("provider: effects: %w", err)
	}
	defer func() { _ = w.Body.Close() }()
	if w.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("provider: effects: it answered %d", w.StatusCode)
	}
	if err := json.NewDecoder(w.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("provider: effects: %w", err)
	}
	return all, nil
}
