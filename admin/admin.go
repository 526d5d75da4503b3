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

// Config configures the handler. The zero value serves every record to every client that connects
// over loopback or through a Unix socket.
type Config struct {
	// Tokens are the tokens that are accepted. Without any, connections over loopback and through
	// Unix sockets may do everything, and no others may do anything.
	Tokens []Token
	// Refused is called for each wrong token, such as to count it; nil means no call.
	Refused func()
	// Hosts are names that the Host header may have besides localhost and IP addresses. Any other
	// name is refused, because a page elsewhere could point its own name here (DNS rebinding).
	Hosts []string
	// Who is the name in the audit trail of clients without a token; default "loopback".
	Who string

	// Webhook serves POST /hooks/reconcile, such as a [reconcile.Webhook]; nil means 404.
	Webhook http.Handler
	// Bulk are the jobs behind /api/v1/bulk; nil means 404. The caller has to run [bulk.Jobs.Run].
	Bulk *bulk.Jobs
	// Outbox is behind /api/v1/outbox, such as an [outbox.Desk]; nil means that the store has none.
	Outbox Outbox

	// Settle is how long an attempt has to be over before a record may be released, unless the
	// operator says now: longer than a call of the handler can be under way. 0 means
	// [reconcile.DefaultSettle]; with [stet.Never] a record may be released at any time.
	Settle time.Duration
	// Reconciler answers POST …/probe; nil means that no probe is configured, and 409.
	Reconciler *reconcile.Reconciler

	// Draining reports that the process is about to end, so that /readyz answers 503; nil means
	// never.
	Draining func() bool
	// Unready says why requests are better sent elsewhere, which /readyz answers with 503; nil and
	// "" mean that nothing is wrong.
	Unready func() string
	// Metrics serves /metrics; nil means 404.
	Metrics http.Handler
	// Policy returns what /policy.json publishes; nil means 404.
	Policy func() Policy

	// Log gets an entry whenever a key or a response is revealed and a token is refused; nil means
	// no log.
	Log *slog.Logger
}

// handler serves one engine's records.
type handler struct {
	engine *stet.Engine
	Config
	mux     *http.ServeMux
	guesses guesses
	cursors seal
}

// New returns the handler for the records of one engine. It is safe for concurrent use.
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

// Marker is a header of every answer of the handler, with the value 1. An answer without it comes
// from another server: a client should not believe it, and should not send its token there. Only
// answers that net/http gives by itself lack it, such as the one to a header that is too long.
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

// readyz: the store answers within its deadline, nothing is known that speaks against it, and the
// end has not been asked for.
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
