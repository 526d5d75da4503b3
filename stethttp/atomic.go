package stethttp

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
)

// Atomic makes what a guarded handler writes to the database, the key's record and the stored response one transaction: all
// of it happens, or nothing, and a crash in between leaves no trace and no doubt (I6, W4). db holds the records, too: a store
// of package sqlstore on the same database.
//
//	mux.Handle("POST /v1/payments", guard.Wrap(stethttp.Atomic(db, pay)))
//
// The reservation is made before, in a transaction of its own, so that duplicates are answered at once while the handler
// runs. The response is held back until the commit: it is sent when it is true. A response of 500 and above, a panic, a
// timeout, a status that says nothing happened, and what the handler states by [stet.Claim.NotExecuted] roll back, which frees the
// key for a retry, by proof. A handler that calls other systems states [stet.Claim.Unknown] where it cannot tell: that rolls
// back, too, and the record says unknown; package flow is made for such handlers. What the handler states as completed is
// committed, whatever its status.
//
// A process that crashes leaves no doubt either, where [Guard.Wrap] is given this handler itself: once the lease is over, a retry
// or the sweeper takes the record over by a write that waits for such a transaction, and proves that it was not committed.
//
// The response has to fit into MaxResponse, and cannot be an event stream or an upgrade: it would leave before the commit.
// A request that the guard lets pass (no key, mode off) runs in a transaction, too, without a record. Its response is held by the
// same bounds: those of the guard whose [Guard.Wrap] was given this handler itself, else [defaultMaxResponse] and the defaults of
// [LimitsConfig], for each such handler. A response over MaxResponse is rolled back and answered with 500, in both cases.
func Atomic(db *sql.DB, handler func(w http.ResponseWriter, r *http.Request, tx *sql.Tx)) http.Handler {
	begin := func(ctx context.Context) (stet.Transaction, error) {
		tx, err := db.BeginTx(ctx, nil)
		return sqlTx{tx}, err
	}
	return AtomicIn(begin, func(w http.ResponseWriter, r *http.Request, tx stet.Transaction) { handler(w, r, tx.(sqlTx).tx) })
}

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Tx() any                        { return t.tx }
func (t sqlTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t sqlTx) Rollback(context.Context) error { return t.tx.Rollback() }

// AtomicIn is [Atomic] for transactions of any kind: pgxstore.Begin returns a begin for those of pgx. begin is given a context that
// ends with the handler's.
func AtomicIn(begin func(ctx context.Context) (stet.Transaction, error), handler func(w http.ResponseWriter, r *http.Request, tx stet.Transaction)) http.Handler {
	return &atomicHandler{begin, handler, defaultMaxResponse, NewLimits(LimitsConfig{})}
}

type atomicHandler struct {
	begin   func(ctx context.Context) (stet.Transaction, error)
	handler func(w http.ResponseWriter, r *http.Request, tx stet.Transaction)
	most    int64 // of a response to a request without a record
	limits  *Limits
}

// within returns the handler with a guard's bounds.
func (a atomicHandler) within(c *Config) *atomicHandler {
	a.most, a.limits = c.MaxResponse, c.Limits
	return &a
}

// ServeHTTP implements [http.Handler].
func (a *atomicHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, guarded := find[*capture](w) // the guard's writer may stand below those of other middleware
	if !guarded {
		a.plainly(w, r)
		return
	}
	tx, err := a.begin(r.Context())
	if err != nil {
		c.x.claim.NotExecuted("no-transaction")
		c.x.g.Refuse(w, r, c.x.problem(StoreUnavailable).After(retrySoon))
		return
	}
	c.join(tx)
	returned := false
	defer func() {
		if !returned { // a panic: nothing of it stays
			c.mu.Lock()
			defer c.mu.Unlock()
			c.x.rollBack()
		}
	}()
	a.handler(w, r, tx)
	returned = true
}

func (c *capture) join(tx stet.Transaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.x.tx = tx
}

// rollBack undoes the handler's transaction, which proves that nothing happened, unless the handler knows of more.
func (x *exchange) rollBack() {
	_ = x.tx.Rollback(x.detached()) // where it fails, the connection is lost: without a COMMIT nothing can follow
	x.tx = nil
	if x.claim.Stated() != stet.Unknown {
		x.claim.NotExecuted(stet.CauseRolledBack)
	}
}

// settle stores what became of the run: in the handler's transaction, where it has one and deserves it.
func (x *exchange) settle(o *stet.Outcome) error {
	switch stated := x.claim.Stated(); {
	case x.tx == nil:
		return x.claim.Settle(x.detached(), *o)
	case x.cap.tooMuch:
		x.rollBack()
		_ = x.claim.Settle(x.detached(), stet.Outcome{})
		return errTooMuch
	case stated == stet.Retryable, stated == stet.Unknown, stated == 0 && x.cap.status >= 500:
		x.rollBack()
		return x.claim.Settle(x.detached(), *o)
	}
	return x.commit(o)
}

// The handler's work was rolled back, and a retry runs.
var (
	errNotCommitted = errors.New("stethttp: the transaction was not committed")
	errTooMuch      = errors.New("stethttp: a response in a transaction is held until the commit, and this one is too large for MaxResponse or a stream")
)

// uncommitted answers where the handler's answer is not true.
func (x *exchange) uncommitted(err error) {
	if errors.Is(err, errTooMuch) {
		x.status = http.StatusInternalServerError
		x.echo()
		x.relay(x.w.Header())
		http.Error(x.w, errTooMuch.Error(), x.status)
		return
	}
	p := x.problem(StoreUnavailable).After(retrySoon)
	x.status = p.Status
	x.echo()
	x.g.cfg.respond(x.w, x.r, p)
}

// commit settles in the transaction, commits, and finds out whether it did.
func (x *exchange) commit(o *stet.Outcome) error {
	tx := x.tx
	err := x.claim.In(tx.Tx())
	if err == nil {
		err = x.claim.Settle(x.detached(), *o)
		if err != nil {
			_ = tx.Rollback(x.detached())
			err = x.claim.Confirm(x.detached(), err)
		} else {
			err = x.claim.Confirm(x.detached(), tx.Commit(x.detached()))
		}
	} else {
		_ = tx.Rollback(x.detached())
	}
	x.tx = nil
	switch {
	case err == nil, errors.Is(err, stet.ErrFenced), errors.Is(err, stet.ErrUnsettled):
		return err
	}
	x.claim.NotExecuted(stet.CauseRolledBack)
	if serr := x.claim.Settle(x.detached(), stet.Outcome{}); errors.Is(serr, stet.ErrFenced) {
		return serr
	}
	return errNotCommitted
}

// plainly runs a handler without a record: its response, too, is sent after the commit.
func (a *atomicHandler) plainly(w http.ResponseWriter, r *http.Request) {
	fail := func() { NewProblem(StoreUnavailable, "").After(retrySoon).ServeHTTP(w, r) }
	tx, err := a.begin(r.Context())
	if err != nil {
		fail()
		return
	}
	memory := a.limits.memory
	held := &heldWriter{header: http.Header{}, body: memory.Buffer(memory.Owner("")), most: a.most}
	defer held.end()
	ended := false
	defer func() {
		if !ended {
			_ = tx.Rollback(context.WithoutCancel(r.Context()))
		}
	}()
	a.handler(held, r, tx)
	if held.tooMuch {
		http.Error(w, errTooMuch.Error(), http.StatusInternalServerError)
		return
	}
	if held.status < 500 {
		ended = true
		if tx.Commit(r.Context()) != nil {
			fail()
			return
		}
	}
	held.send(w)
}

// heldWriter keeps a response until it is true.
type heldWriter struct {
	header http.Header

	mu      sync.Mutex // the handler against its own late writes
	status  int
	body    ledger.Buffer
	most    int64
	tooMuch bool // more than it can keep
	ended   bool
}

// end gives back what is held. What a handler writes from now on goes nowhere.
func (h *heldWriter) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.body.Leave()
}

func (h *heldWriter) Header() http.Header { return h.header }

func (h *heldWriter) WriteHeader(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.status == 0 && status >= 200 {
		h.status = status
	}
}

func (h *heldWriter) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return 0, http.ErrHandlerTimeout
	}
	if h.tooMuch = h.tooMuch || int64(len(h.body.Bytes())+len(p)) > h.most || !h.body.Append(p, h.most); h.tooMuch {
		return 0, errTooMuch
	}
	return len(p), nil
}

func (h *heldWriter) send(w http.ResponseWriter) {
	for name, values := range h.header {
		w.Header()[name] = values
	}
	if h.status != 0 {
		w.WriteHeader(h.status)
	}
	if body := h.body.Bytes(); len(body) > 0 {
		_, _ = w.Write(body)
	}
}
