package stethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// bank is a database of records and of charges, with transactions.
type bank struct {
	stet.Store
	mu      sync.Mutex
	charges int
	broken  error // of the next commit, before it happens
	lost    error // ... after it happened
	away    bool  // no transaction can begin
}

// bankTx collects what is written; a commit applies all of it, or nothing.
type bankTx struct {
	stet.Store
	b       *bank
	charges int
	ended   bool
	write   func() error
}

func (b *bank) Bind(tx any) (stet.Store, error) {
	t, ok := tx.(*bankTx)
	if !ok {
		return nil, stet.ErrForeignTx
	}
	return t, nil
}

func (b *bank) begin(context.Context) (stet.Transaction, error) {
	if b.away {
		return nil, errors.New("too many connections")
	}
	return &bankTx{Store: b.Store, b: b}, nil
}

func (t *bankTx) Tx() any { return t }

func (t *bankTx) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	have, err := t.b.Get(ctx, h.ID)
	if err != nil || have.Version != prev {
		return have.Head, errors.Join(err, stet.ErrStale)
	}
	t.write = func() error { _, err := t.b.Store.Replace(context.Background(), prev, h, b); return err }
	h.DueAt, h.UpdatedAt = have.AsOf.Add(h.DueIn), have.AsOf
	return h, nil
}

func (t *bankTx) Commit(context.Context) error {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.b.broken != nil || t.ended {
		t.ended = true
		return errors.Join(t.b.broken, errors.New("not committed"))
	}
	t.ended = true
	if t.write != nil {
		if err := t.write(); err != nil {
			return err
		}
	}
	t.b.charges += t.charges
	return t.b.lost
}

func (t *bankTx) Rollback(context.Context) error { t.ended = true; return nil }

// till is a guarded handler that charges in a transaction.
func till(t *testing.T, b *bank, c stethttp.Config, handler func(w http.ResponseWriter, r *http.Request)) http.Handler {
	t.Helper()
	e, err := stet.New(b, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return stethttp.Middleware(e, stethttp.SingleTenant, c)(stethttp.AtomicIn(b.begin, func(w http.ResponseWriter, r *http.Request, tx stet.Transaction) {
		tx.(*bankTx).charges++
		handler(w, r)
	}))
}

func pay(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", strings.NewReader(`{"amount":1}`))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func newBank() *bank { return &bank{Store: memstore.New(memstore.Config{})} }

func paid(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprint(w, "paid")
}

func TestAtomicCommitsResultAndEffectTogether(t *testing.T) { // I6, W4
	b := newBank()
	h := till(t, b, stethttp.Config{}, paid)
	first := pay(h, "k")
	if again := pay(h, "k"); first.Code != 201 || again.Code != 201 || again.Body.String() != "paid" || again.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d, then %d %q", first.Code, again.Code, again.Body)
	}
	if b.charges != 1 {
		t.Errorf("%d charges", b.charges)
	}
}

func TestAtomicRollsBack(t *testing.T) { // and the key is free, by proof
	for name, c := range map[string]struct {
		handler func(w http.ResponseWriter, r *http.Request)
		status  int
		cfg     stethttp.Config
	}{
		"failure": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }, 500, stethttp.Config{}},
		"refused": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }, 401, stethttp.Config{}},
		"stated": {func(w http.ResponseWriter, r *http.Request) {
			stet.ClaimFrom(r.Context()).NotExecuted("closed")
			paid(w, r)
		}, 201, stethttp.Config{}},
		"too large to hold": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) }, 500, stethttp.Config{MaxResponse: 50}},
		"a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			paid(w, nil)
		}, 500, stethttp.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			b, fail := newBank(), true
			h := till(t, b, c.cfg, func(w http.ResponseWriter, r *http.Request) {
				if fail {
					c.handler(w, r)
					return
				}
				paid(w, r)
			})
			if a := pay(h, "k"); a.Code != c.status || b.charges != 0 {
				t.Errorf("%d %q, %d charges", a.Code, a.Body, b.charges)
			}
			fail = false
			if a := pay(h, "k"); a.Code != 201 || b.charges != 1 {
				t.Errorf("then %d %q, %d charges", a.Code, a.Body, b.charges)
			}
		})
	}
}

func TestAtomicPanicRollsBack(t *testing.T) {
	b := newBank()
	h := till(t, b, stethttp.Config{}, func(http.ResponseWriter, *http.Request) { panic("bug") })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic went no further")
			}
		}()
		pay(h, "k")
	}()
	e, _ := stet.New(b, stet.Config{})
	r, err := e.Get(t.Context(), stet.ID{Scope: "default", Key: "k"})
	if err != nil || r.State != stet.Retryable || r.Cause != stet.CauseRolledBack || b.charges != 0 {
		t.Errorf("%v %q, %v; %d charges", r.State, r.Cause, err, b.charges)
	}
}

func TestAtomicUnknownStaysUnknown(t *testing.T) { // the handler called another system, and cannot tell
	b := newBank()
	h := till(t, b, stethttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		stet.ClaimFrom(r.Context()).Unknown("provider-timeout")
		http.Error(w, "later", http.StatusServiceUnavailable)
	})
	if a := pay(h, "k"); a.Code != 503 || b.charges != 0 {
		t.Errorf("%d, %d charges", a.Code, b.charges)
	}
	if a := pay(h, "k"); a.Code != 409 {
		t.Errorf("then %d", a.Code)
	}
}

func TestAtomicCommitThatFails(t *testing.T) { // W7
	for name, c := range map[string]struct {
		broken, lost error
		first, then  int
		charges      int
	}{
		"before it happened": {broken: errors.New("serialization failure"), first: 503, then: 201, charges: 1},
		"after it happened":  {lost: errors.New("connection reset"), first: 201, then: 201, charges: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank()
			b.broken, b.lost = c.broken, c.lost
			h := till(t, b, stethttp.Config{}, paid)
			first := pay(h, "k")
			b.broken, b.lost = nil, nil
			then := pay(h, "k")
			if first.Code != c.first || then.Code != c.then || b.charges != c.charges {
				t.Errorf("%d %q, then %d; %d charges", first.Code, first.Body, then.Code, b.charges)
			}
		})
	}
}

func TestAtomicWithoutATransaction(t *testing.T) {
	b := newBank()
	b.away = true
	h := till(t, b, stethttp.Config{}, paid)
	if a := pay(h, "k"); a.Code != 503 || !strings.Contains(a.Body.String(), "store-unavailable") {
		t.Errorf("%d %q", a.Code, a.Body)
	}
	b.away = false
	if a := pay(h, "k"); a.Code != 201 || b.charges != 1 {
		t.Errorf("then %d, %d charges", a.Code, b.charges)
	}
}

func TestAtomicTimeoutRollsBackWhenTheHandlerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		cfg := stethttp.Config{Policy: stet.Policy{Execution: time.Second}}
		slow := true
		h := till(t, b, cfg, func(w http.ResponseWriter, r *http.Request) {
			if slow {
				<-time.After(2 * time.Second) // deaf to its context
			}
			paid(w, r)
		})
		if a := pay(h, "k"); a.Code != 504 || b.charges != 0 {
			t.Errorf("%d, %d charges", a.Code, b.charges)
		}
		slow = false
		if a := pay(h, "k"); a.Code != 201 || b.charges != 1 {
			t.Errorf("then %d %q, %d charges", a.Code, a.Body, b.charges)
		}
	})
}

// A process may die, or hang, while its handler waits for a transaction after its time was over: the
// record is left to its lease, whose end proves that nothing happened.
func TestAtomicTimeoutBeforeTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, waiting := newBank(), make(chan struct{})
		e, err := stet.New(b, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var begun atomic.Int32
		h := stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{Policy: stet.Policy{Execution: time.Second}})(
			stethttp.AtomicIn(func(ctx context.Context) (stet.Transaction, error) {
				if begun.Add(1) == 1 {
					<-waiting // deaf to its context
				}
				return b.begin(ctx)
			}, func(w http.ResponseWriter, r *http.Request, tx stet.Transaction) {
				tx.(*bankTx).charges++
				paid(w, r)
			}))
		ended := make(chan int)
		go func() { ended <- pay(h, "k").Code }()
		time.Sleep(2 * time.Minute)
		if a := pay(h, "k"); a.Code != 201 || b.charges != 1 {
			t.Errorf("after the lease %d %q, %d charges", a.Code, a.Body, b.charges)
		}
		close(waiting)
		if code := <-ended; code != 504 || b.charges != 1 {
			t.Errorf("the first was told %d, %d charges", code, b.charges)
		}
	})
}

func TestAtomicWithoutAKey(t *testing.T) { // it is a transaction all the same
	b := newBank()
	status := 201
	h := till(t, b, stethttp.Config{Mode: stethttp.ModeOptional}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
	if a := pay(h, ""); a.Code != 201 || b.charges != 1 {
		t.Errorf("%d, %d charges", a.Code, b.charges)
	}
	status = 500
	if a := pay(h, ""); a.Code != 500 || b.charges != 1 {
		t.Errorf("%d, %d charges", a.Code, b.charges)
	}
	status, b.broken = 201, errors.New("no")
	if a := pay(h, ""); a.Code != 503 || b.charges != 1 {
		t.Errorf("%d, %d charges", a.Code, b.charges)
	}
}

func TestAtomicWithoutAKeyHoldsNoMoreThanWithOne(t *testing.T) { // C19
	limits := stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: 4 << 20})
	for name, c := range map[string]struct {
		cfg     stethttp.Config
		wrapped bool // in something that the guard does not know
		most    int
	}{
		"by the guard":   {stethttp.Config{Mode: stethttp.ModeOptional, MaxResponse: 50, Limits: limits}, false, 50},
		"by default":     {stethttp.Config{Mode: stethttp.ModeOptional, MaxResponse: 50, Limits: limits}, true, 1 << 20},
		"by the memory":  {stethttp.Config{Mode: stethttp.ModeOptional, MaxResponse: 64 << 20, Limits: limits}, false, 1 << 20},
		"with mode: off": {stethttp.Config{Mode: stethttp.ModeOff, MaxResponse: 50, Limits: limits}, false, 50},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank()
			size, seen := c.most, int64(0)
			var h http.Handler = stethttp.AtomicIn(b.begin, func(w http.ResponseWriter, _ *http.Request, tx stet.Transaction) {
				tx.(*bankTx).charges++
				w.WriteHeader(http.StatusCreated)
				for left := size; left > 0; left -= min(left, 10_000) {
					if _, err := w.Write(make([]byte, min(left, 10_000))); err != nil {
						break
					}
				}
				seen = limits.Buffered()
			})
			if c.wrapped {
				h = http.HandlerFunc(h.ServeHTTP)
			}
			e, err := stet.New(b, stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			h = stethttp.Middleware(e, stethttp.SingleTenant, c.cfg)(h)
			if a := pay(h, ""); a.Code != 201 || a.Body.Len() != size || b.charges != 1 {
				t.Errorf("%d, %d bytes, %d charges", a.Code, a.Body.Len(), b.charges)
			}
			if !c.wrapped && seen < int64(size) {
				t.Errorf("%d bytes are held of %d", seen, size)
			}
			if size = c.most + 1; name == "by the memory" {
				size = 4 << 20
			}
			if a := pay(h, ""); a.Code != 500 || b.charges != 1 {
				t.Errorf("one byte more: %d, %d charges", a.Code, b.charges)
			}
			if n := limits.Buffered(); n != 0 {
				t.Errorf("%d bytes are held in the end", n)
			}
		})
	}
}
