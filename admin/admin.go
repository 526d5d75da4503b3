package admin

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/reconcile"
)

// Config is what the handler shows, and to whom. The zero value serves records to whoever connects over loopback.
type Config struct {
	// Tokens are who may ask. Without any, only connections over loopback and through Unix sockets may, and they may do everything.
	Tokens  []Token
	Refused func()   // is called for each wrong token; nil: nobody counts them
	Hosts   []string // names the Host header may have besides localhost and IP addresses, or a page elsewhere could ask (DNS rebinding)

	Who     string       // comes over loopback without a token, in the audit trail; default "loopback"
	Webhook http.Handler // POST /hooks/reconcile; nil: 404
	Bulk    *bulk.Jobs   // /api/v1/bulk; nil: 404. Somebody has to run them

	// Settle is how long an attempt has to be over before a record is released without now: longer than what it sent can be under
	// way. Default [reconcile.DefaultSettle]; with [stet.Never] silence proves nothing however long it lasts, and people decide at once.
	Settle     time.Duration
	Reconciler *reconcile.Reconciler // asks when somebody wants it asked now; nil: nothing is configured to ask

	Outbox Outbox // /api/v1/outbox; nil: this store has none, and that is what it says

	Draining func() bool   // the end was asked for: /readyz says so; nil: never
	Unready  func() string // why requests are better sent elsewhere: /readyz says so, with 503; nil or "": nothing is wrong
	Metrics  http.Handler  // /metrics; nil: 404
	Policy   func() Policy // /policy.json; nil: 404

	Log *slog.Logger // who saw what is not shown by default; nil logs nothing
}

// handler serves one engine's records.
type handler struct {
	engine *stet.Engine
	Config
	mux     *http.ServeMux
	guesses guesses
	cursors seal
}

// New returns the handler. It is safe for concurrent use.
func New(e *stet.Engine, c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Who == "" {
		c.Who = "loopback"
	}
	c.Settle = cmp.Or(c.Settle, reconcile.DefaultSettle)
	h := &handler{engine: e, Config: c, cursors: newSeal(), mux: http.NewServeMux()}
	h.mux.HandleFunc("GET /livez", h.livez)
	h.mux.HandleFunc("GET /readyz", h.readyz)
	h.mux.HandleFunc("GET /api/v1/keys", h.allow(h.list))
	for _, record := range []string{"/api/v1/keys/{scope}/{key}", "/api/v1/keys/{id}"} { // an id needs no scope
		h.mux.HandleFunc("GET "+record, h.allow(h.show))
		h.mux.HandleFunc("POST "+record+"/resolve", h.changing(Operator, h.resolve))
		h.mux.HandleFunc("POST "+record+"/release", h.changing(Operator, h.release))
		h.mux.HandleFunc("POST "+record+"/extend", h.changing(Operator, h.extend))
		h.mux.HandleFunc("POST "+record+"/probe", h.changing(Operator, h.ask))
		h.mux.HandleFunc("POST "+record+"/note", h.changing(Operator, h.annotate))
		h.mux.HandleFunc("DELETE "+record, h.changing(Admin, h.purge))
	}
	h.mux.HandleFunc("GET /api/v1/audit", h.allow(h.audit))
	if c.Bulk != nil {
		h.mux.HandleFunc("POST /api/v1/bulk", h.changing(Operator, h.bulkStart))
		h.mux.HandleFunc("POST /api/v1/bulk/count", h.changing(Operator, h.bulkCount))
		h.mux.HandleFunc("GET /api/v1/bulk", h.allow(h.bulkRecent))
		h.mux.HandleFunc("GET /api/v1/bulk/{job}", h.allow(h.bulkShow))
	}
	h.mux.HandleFunc("GET /api/v1/outbox", h.allow(h.outboxed(h.messages)))
	h.mux.HandleFunc("GET /api/v1/outbox/{message}", h.allow(h.outboxed(h.message)))
	h.mux.HandleFunc("POST /api/v1/outbox/{message}/retry", h.changing(Operator, h.outboxed(h.retry)))
	h.mux.HandleFunc("POST /api/v1/outbox/{message}/discard", h.changing(Operator, h.outboxed(h.discard)))
	if c.Webhook != nil { // it is signed: a provider has no token
		h.mux.Handle("POST /hooks/reconcile", c.Webhook)
	}
	if c.Metrics != nil {
		h.mux.HandleFunc("GET /metrics", h.allow(func(w http.ResponseWriter, r *http.Request, who principal) {
			if who.bound() { // its counts are those of all scopes
				notFound.write(w)
				return
			}
			c.Metrics.ServeHTTP(w, r)
		}))
	}
	if c.Policy != nil {
		h.mux.HandleFunc("GET /policy.json", h.allow(h.policy))
	}
	h.mux.Handle("GET /problems/", problems.Handler()) // as public as the project
	h.mux.HandleFunc("/", h.allow(func(w http.ResponseWriter, _ *http.Request, _ principal) { notFound.write(w) }))
	return h
}

// Marker is a header of every answer of the handler, with the value 1. A client that has not seen it talks to somebody else: it
// should believe nothing it is answered, and show no token. What net/http refuses before it is a request, such as a header that is too
// long, comes without.
const Marker = "Stet-Admin"

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set(Marker, "1")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.mux.ServeHTTP(w, r)
}

// livez: the process answers.
func (h *handler) livez(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") }

// probe names no record. Should a client ever have one of that name, it is read and not looked at.
var probe = stet.ID{Scope: "stet-readyz", Key: "readyz"}

// readyz: the store answers within its deadline, nothing is known that speaks against it, and the end has not been asked for.
func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	if h.Draining != nil && h.Draining() {
		say(w, http.StatusServiceUnavailable, "draining")
		return
	}
	if h.Unready != nil {
		if why := h.Unready(); why != "" {
			say(w, http.StatusServiceUnavailable, why)
			return
		}
	}
	if _, err := h.engine.Get(r.Context(), probe); err != nil && !errors.Is(err, stet.ErrNotFound) {
		say(w, http.StatusServiceUnavailable, "the store does not answer")
		return
	}
	say(w, http.StatusOK, "ready")
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
