package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
)

// Effect is a line of the provider's ledger.
type Effect struct {
	Order, Kind, Key, ID string
}

// ledger is a provider of effects. It lives with the test, and so through every crash.
type ledger struct {
	server *httptest.Server

	mu      sync.Mutex
	effects []Effect
	void    map[string]bool          // keys that come too late from now on
	gates   map[string]chan struct{} // by order: its effect is answered when this is closed
}

func newLedger() *ledger {
	l := &ledger{void: map[string]bool{}, gates: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effects/{kind}", l.effect)
	mux.HandleFunc("POST /found/{kind}", l.found)
	l.server = httptest.NewServer(mux)
	return l
}

// hold lets the effect of an order happen, and keeps back what is said of it until the gate is
// opened.
func (l *ledger) hold(order string) (open func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gate := make(chan struct{})
	l.gates[order] = gate
	return sync.OnceFunc(func() { close(gate) })
}

// effect has one, unless it is told to honour the key and knows it.
func (l *ledger) effect(w http.ResponseWriter, r *http.Request) {
	id, err := l.make(r)
	l.mu.Lock()
	gate := l.gates[r.FormValue("order")]
	l.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_, _ = io.WriteString(w, id)
}

func (l *ledger) make(r *http.Request) (id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := Effect{Order: r.FormValue("order"), Kind: r.PathValue("kind"), Key: r.FormValue("key")}
	if l.void[e.Key] {
		return "", errors.New("the key is void")
	}
	if i := l.find(e.Kind, e.Key); i >= 0 && r.FormValue("honour") != "" {
		return l.effects[i].ID, nil
	}
	e.ID = fmt.Sprintf("%s_%d", e.Kind, len(l.effects)+1)
	l.effects = append(l.effects, e)
	return e.ID, nil
}

// found tells the id of an effect. What is not there can be made void in the same breath, so that
// its absence is a proof (I14).
func (l *ledger) found(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := r.FormValue("key")
	if i := l.find(r.PathValue("kind"), key); i >= 0 {
		_, _ = io.WriteString(w, l.effects[i].ID)
		return
	}
	if r.FormValue("void") != "" {
		l.void[key] = true
	}
	w.WriteHeader(http.StatusNotFound)
}

func (l *ledger) find(kind, key string) int {
	return slices.IndexFunc(l.effects, func(e Effect) bool { return e.Kind == kind && e.Key == key })
}

// of returns the effects of an order.
func (l *ledger) of(order string) (effects []Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.effects {
		if e.Order == order {
			effects = append(effects, e)
		}
	}
	return effects
}

// Provider is the way to the ledger from within a program.
type Provider struct {
	url    string
	client http.Client
}

// Effect asks for an effect, and returns its id. With honour the provider has one effect per key.
func (p *Provider) Effect(ctx context.Context, kind, order, key string, honour bool) (string, error) {
	form := url.Values{"order": {order}, "key": {key}}
	if honour {
		form.Set("honour", "1")
	}
	id, ok, err := p.post(ctx, "/effects/"+kind, form)
	if err == nil && !ok {
		err = fmt.Errorf("the provider refuses %s", kind)
	}
	return id, err
}

// Find asks whether there was an effect. With void there can be none afterwards if there was none.
func (p *Provider) Find(ctx context.Context, kind, key string, void bool) (id string, ok bool, err error) {
	form := url.Values{"key": {key}}
	if void {
		form.Set("void", "1")
	}
	return p.post(ctx, "/found/"+kind, form)
}

func (p *Provider) post(ctx context.Context, path string, form url.Values) (answer string, ok bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path+"?"+form.Encode(), nil)
	if err != nil {
		return "", false, err
	}
	res, err := p.client.Do(r)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return string(body), res.StatusCode == http.StatusOK, err
}
