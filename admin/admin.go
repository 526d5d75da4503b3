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
	h.mount()
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
func (h *handler) livez(*call) (any, error) { return text(http.StatusOK, "alive"), nil }

// probe names no record. Should a client ever have one of that name, it is read and not looked at.
var probe = stet.ID{Scope: "stet-readyz", Key: "readyz"}

// readyz: the store answers within its deadline, nothing is known that speaks against it, and the end has not been asked for.
func (h *handler) readyz(c *call) (any, error) {
	if h.Draining != nil && h.Draining() {
		return text(http.StatusServiceUnavailable, "draining"), nil
	}
	if h.Unready != nil {
		if why := h.Unready(); why != "" {
			return text(http.StatusServiceUnavailable, why), nil
		}
	}
	if _, err := h.engine.Get(c.Context(), probe); err != nil && !errors.Is(err, stet.ErrNotFound) {
		return text(http.StatusServiceUnavailable, "the store does not answer"), nil
	}
	return text(http.StatusOK, "ready"), nil
}

// text answers with a line.
func text(status int, line string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(line + "\n"))
	})
}

// metrics are of all scopes.
func (h *handler) metrics(c *call) (any, error) {
	if c.who.bound() {
		return nil, notFound
	}
	return h.Metrics, nil
}

// hook needs no token: what a provider sends is signed.
func (h *handler) hook(*call) (any, error) { return h.Webhook, nil }

// problems are as public as the project.
func (h *handler) problems(*call) (any, error) { return problems.Handler(), nil }
