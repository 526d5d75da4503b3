package stethttp

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/http"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/sqltx"
)

// Atomic runs a guarded handler in one database transaction with the key's record and the stored
// response. Either all of it is committed or nothing is, and a crash in between leaves neither a
// trace nor a doubt (I6, W4). db must hold the records, too: use a store of package sqlstore on the
// same database.
//
//	mux.Handle("POST /v1/payments", guard.Wrap(stethttp.Atomic(db, pay)))
//
// The reservation is made before, in a transaction of its own, so that duplicates are answered at
// once while the handler runs. The response is held back until the commit. A response of 500 and
// above, a panic, a timeout, a status that says nothing happened, and [stet.Claim.NotExecuted] roll
// back. This proves that nothing happened and frees the key for a retry. A handler that calls other
// systems states [stet.Claim.Unknown] if it cannot tell what happened there: that rolls back, too,
// and the record says unknown. Package flow is made for such handlers. What a handler states as
// completed is committed, whatever its status.
//
// A database may end a transaction by itself, and each statement after that happens alone: MySQL
// and MariaDB do so with the victim of a deadlock (error 1213), SQLite when a disk is full. A
// handler returns at once after such an error, and states [stet.Claim.NotExecuted] then, since
// only the handler knows that it did. Otherwise the record is unknown, with the cause
// [stet.CauseTxEnded]; it is never completed. It must not end the transaction by statements of its
// own, such as COMMIT or one that changes a table in MySQL.
//
// A crash of the process leaves no doubt either, if [Guard.Wrap] is given this handler itself. When
// the lease is over, a retry or the sweeper takes over the record with a write that waits for the
// handler's transaction, and so proves that it was not committed.
//
// The response has to fit into MaxResponse and cannot be an event stream or an upgrade, because it
// would leave before the commit. A larger response is rolled back and answered with 500. A request
// that the guard lets pass (no key, mode off) also runs in a transaction, but without a record. Its
// response has the bounds of the guard whose [Guard.Wrap] was given this handler itself; without
// such a guard each handler has the defaults: 1 MiB, and those of [LimitsConfig].
func Atomic(db *sql.DB, handler func(w http.ResponseWriter, r *http.Request, tx *sql.Tx)) http.Handler {
	return AtomicIn(sqltx.Begin(db, nil), func(w http.ResponseWriter, r *http.Request, tx stet.Transaction) {
		handler(w, r, tx.Tx().(*sql.Tx))
	})
}

// AtomicIn is [Atomic] for transactions of any kind; pgxstore.Begin returns a begin for those of
// pgx. The context given to begin ends with the handler's.
func AtomicIn(begin func(ctx context.Context) (stet.Transaction, error), handler func(w http.ResponseWriter, r *http.Request, tx stet.Transaction)) http.Handler {
	return &atomicHandler{begin, handler, defaultMaxResponse, NewLimits(LimitsConfig{})}
}

type atomicHandler struct {
	begin   func(ctx context.Context) (stet.Transaction, error)
	handler func(w http.ResponseWriter, r *http.Request, tx stet.Transaction)
	most    int64 // bytes of a response to a request without a record
	limits  *Limits
}

// within returns the handler with the bounds of a guard.
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
	if err == nil {
		if err = c.x.claim.Bind(tx.Tx()); err != nil {
			_ = tx.Rollback(c.x.detached())
		}
	}
	if err != nil {
		c.x.claim.NotExecuted("no-transaction")
		c.x.g.Refuse(w, r, c.x.problem(StoreUnavailable).After(retrySoon))
		return
	}
	c.mu.Lock()
	c.tx = tx
	c.mu.Unlock()
	returned := false
	defer func() {
		if !returned { // a panic rolls everything back
			c.mu.Lock()
			defer c.mu.Unlock()
			c.x.rollBack()
		}
	}()
	a.handler(w, r, tx)
	returned = true
}

// rollBack undoes the handler's transaction. This proves that nothing happened, unless the handler
// has stated unknown, or went on after its transaction had ended and does not state that nothing
// happened (Q01).
func (x *run) rollBack() {
	err := x.claim.Undoable(x.detached(), nil)
	_ = x.cap.tx.Rollback(x.detached()) // if it fails, the connection is lost, and without a COMMIT there is no effect
	x.cap.tx = nil
	switch {
	case x.claim.Stated() == stet.Unknown:
	case errors.Is(err, stet.ErrTxEnded) && !x.vouched:
		x.claim.Unknown(stet.CauseTxEnded)
	case x.claim.Stated() == stet.Retryable: // by the handler, which may have freed the key for any request
	default:
		x.claim.NotExecuted(stet.CauseRolledBack)
	}
}

// settle stores the outcome of the run: in the handler's transaction if there is one to commit.
func (x *run) settle(o *stet.Outcome) error {
	switch stated := x.claim.Stated(); {
	case x.cap.tx == nil:
		return x.claim.Settle(x.r.Context(), *o)
	case x.cap.tooMuch:
		x.rollBack()
		_ = x.claim.Settle(x.r.Context(), stet.Outcome{})
		return errTooMuch
	case stated == stet.Retryable, stated == stet.Unknown, stated == 0 && x.cap.status >= 500:
		x.rollBack()
		return x.claim.Settle(x.r.Context(), *o)
	}
	return x.commit(o)
}

// In these cases the handler's work was rolled back, and a retry runs.
var (
	errNotCommitted = errors.New("stethttp: the transaction was not committed")
	errTooMuch      = errors.New("stethttp: a response in a transaction is held until the commit, and this one is too large for MaxResponse or a stream")
)

// uncommitted answers in place of a handler whose work was rolled back.
func (x *run) uncommitted(err error) {
	if errors.Is(err, errTooMuch) {
		x.status = http.StatusInternalServerError
		x.echo()
		x.relay(x.w.Header())
		http.Error(x.w, errTooMuch.Error(), x.status)
		return
	}
	x.say(x.problem(StoreUnavailable).After(retrySoon))
}

// commit settles in the transaction, commits, and finds out whether the commit took effect.
func (x *run) commit(o *stet.Outcome) error {
	tx := x.cap.tx
	err := x.claim.In(tx.Tx())
	if err == nil {
		err = x.claim.Settle(x.r.Context(), *o)
		if err != nil {
			_ = x.claim.Undoable(x.detached(), nil) // Confirm knows what it found
			_ = tx.Rollback(x.detached())
			err = x.claim.Confirm(x.r.Context(), err)
		} else {
			err = x.claim.Confirm(x.r.Context(), tx.Commit(x.detached()))
		}
	} else {
		_ = tx.Rollback(x.detached())
	}
	x.cap.tx = nil
	switch {
	case err == nil, errors.Is(err, stet.ErrFenced), errors.Is(err, stet.ErrUnsettled), errors.Is(err, stet.ErrTxEnded):
		return err
	}
	x.claim.NotExecuted(stet.CauseRolledBack)
	if serr := x.claim.Settle(x.r.Context(), stet.Outcome{}); errors.Is(serr, stet.ErrFenced) {
		return serr
	}
	return errNotCommitted
}

// plainly runs a handler without a record. Its response, too, is sent after the commit.
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

// heldWriter holds a response until the commit.
type heldWriter struct {
	header http.Header

	mu      sync.Mutex // the handler may write after it has returned
	status  int
	body    ledger.Buffer
	most    int64
	tooMuch bool // the response is over most, or the memory is used up
	ended   bool
}

// end gives back the held bytes. What a handler writes from now on is lost.
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
	if h.tooMuch = h.tooMuch || !h.body.Append(p, h.most); h.tooMuch {
		return 0, errTooMuch
	}
	return len(p), nil
}

func (h *heldWriter) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), h.header)
	if h.status != 0 {
		w.WriteHeader(h.status)
	}
	if body := h.body.Bytes(); len(body) > 0 {
		_, _ = w.Write(body)
	}
}
