package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/sealed"
	"github.com/stet-dev/stet/reconcile"
)

// Config configures the handler. The zero value serves every record to every client that connects
// over loopback or through a Unix socket.
type Config struct {
	// Title says which installation this is, such as "production eu-1".
	Title string
	// TraceURL is the address of a page that shows a trace, with {trace_id} in it.
	TraceURL string
	// Tokens are the tokens that are accepted. Without any, connections over loopback and through
	// Unix sockets may do everything, and no others may do anything.
	Tokens []Token
	// Refused is called for each wrong token, such as to count it; nil means no call.
	Refused func()
	// Throttle slows down who shows wrong tokens; nil means one of the handler's own. A handler that
	// takes the place of another takes over its Throttle, and so goes on with its waits.
	Throttle *Throttle
	// Hosts are names that the Host header may have besides localhost and IP addresses. Any other
	// name is refused, because a page elsewhere could point its own name here (DNS rebinding).
	Hosts []string
	// Who is the name in the audit trail of clients without a token; default "loopback".
	Who string

	// Webhook serves POST /hooks/reconcile, such as a [reconcile.Webhook]; nil means 404.
	Webhook http.Handler
	// Bulk are the jobs behind /api/v1/bulk; nil means 404. They need [bulk.Jobs.Run], and those
	// that probe [bulk.Jobs.AskWith].
	Bulk *bulk.Jobs
	// Outbox is behind /api/v1/outbox, such as an [outbox.Desk]; nil means that the store has none.
	Outbox Outbox

	// Settle is how long an attempt has to be over before a record may be released, unless the
	// operator says now: longer than a call of the handler can be under way. 0 means
	// [reconcile.DefaultSettle]; with [stet.Never] a record may be released at any time.
	Settle time.Duration
	// Reconciler answers POST …/probe, and says how many probes there are of a record; nil means
	// that no probe is configured, and 409.
	Reconciler *reconcile.Reconciler
	// Asking returns the requests that asked about a record in vain since it is unknown, and the
	// last that did not match it, each nil where there was none. id is the record's; a zero instant
	// says that it is not unknown. It is called for each record of an incident, and so answers from
	// memory; nil means that nothing is counted.
	Asking func(ctx context.Context, id string, unknownSince time.Time) (*Asking, *Mismatch)

	// Figures returns what the processes on this store have counted, such as
	// [github.com/stet-dev/stet/admin/figures.Board.Figures]; nil means that nothing is counted.
	Figures func(ctx context.Context) Figures
	// Health says how the store answers, and the cache, nil if there is none. If Health is nil, the
	// store is asked.
	Health func() (store Health, cache *Health)
	// Warnings returns what should be looked at; nil means nothing.
	Warnings func() []Warning
	// Settings returns the effective configuration, for GET /api/v1/config; nil means 404.
	Settings func() []Setting

	// Draining reports that the process is about to end, so that /readyz answers 503; nil means
	// never.
	Draining func() bool
	// Unready says why requests are better sent elsewhere, which /readyz answers with 503; nil and
	// "" mean that nothing is wrong.
	Unready func() string
	// Metrics serves /metrics; nil means 404.
	Metrics http.Handler
	// Policy returns what /policy.json publishes, and by which clients are answered; nil means 404,
	// and that no route is known.
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
	foreign http.CrossOriginProtection // knows the pages of other origins; programs send none
	cursors sealed.Cursors

	readings readings
	sweeping chan struct{} // holds the one search that may walk the records
}

// New returns the handler for the records of one engine. It is safe for concurrent use.
func New(e *stet.Engine, c Config) http.Handler {
	if err := configBounds.Check(&c); err != nil {
		return unusable(err)
	}
	c.Log, c.Who = cmp.Or(c.Log, slog.New(slog.DiscardHandler)), cmp.Or(c.Who, "loopback")
	c.Settle, c.Throttle = cmp.Or(c.Settle, reconcile.DefaultSettle), cmp.Or(c.Throttle, new(Throttle))
	h := &handler{engine: e, Config: c, cursors: cursorsOf(c.Tokens), mux: http.NewServeMux(),
		sweeping: make(chan struct{}, 1)}
	h.mount()
	return h
}

// cursorsOf are those that all gateways with the same tokens open, also after a restart. Without
// tokens none are made.
func cursorsOf(tokens []Token) sealed.Cursors {
	sums := make([][]byte, len(tokens))
	for i := range tokens {
		sums[i] = tokens[i].SHA256[:]
	}
	slices.SortFunc(sums, bytes.Compare)
	return sealed.Shared(bytes.Join(sums, nil))
}

var configBounds = bounds.For[Config](
	bounds.Number("Tokens[].Role", int64(Viewer), int64(Admin)),
	bounds.Duration("Settle", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", stet.Never),
)

// unusable answers whatever it is asked with what is wrong with the [Config].
func unusable(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(Marker, "1")
		http.Error(w, err.Error(), http.StatusInternalServerError)
	})
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
	return as(status, "text/plain; charset=utf-8", []byte(line+"\n"))
}

// as answers with a body of a media type.
func as(status int, media string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
}

func (h *handler) metrics(*call) (any, error) { return h.Metrics, nil }

// hook needs no token: what a provider sends is signed.
func (h *handler) hook(*call) (any, error) { return h.Webhook, nil }

// problems are as public as the project.
func (h *handler) problems(*call) (any, error) { return problems.Handler(), nil }
