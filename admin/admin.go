package admin

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
)

// Config is what the handler shows, and to whom. The zero value serves records to whoever connects over loopback.
type Config struct {
	Tokens []Token  // who may ask; without any, only connections over loopback may, and they may do everything
	Hosts  []string // names the Host header may have besides localhost and IP addresses, or a page elsewhere could ask (DNS rebinding)

	Who     string       // comes over loopback without a token, in the audit trail; default "loopback"
	Webhook http.Handler // POST /hooks/reconcile; nil: 404

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
	mux *http.ServeMux
}

// New returns the handler. It is safe for concurrent use.
func New(e *stet.Engine, c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Who == "" {
		c.Who = "loopback"
	}
	h := &handler{engine: e, Config: c, mux: http.NewServeMux()}
	h.mux.HandleFunc("GET /livez", h.livez)
	h.mux.HandleFunc("GET /readyz", h.readyz)
	h.mux.HandleFunc("GET /api/v1/keys", h.allow(h.list))
	h.mux.HandleFunc("GET /api/v1/keys/{scope}/{key}", h.allow(h.show))
	h.mux.HandleFunc("POST /api/v1/keys/{scope}/{key}/resolve", h.changing(Operator, h.resolve))
	h.mux.HandleFunc("POST /api/v1/keys/{scope}/{key}/release", h.changing(Operator, h.release))
	h.mux.HandleFunc("DELETE /api/v1/keys/{scope}/{key}", h.changing(Admin, h.purge))
	h.mux.HandleFunc("GET /api/v1/audit", h.allow(h.audit))
	if c.Webhook != nil { // it is signed: a provider has no token
		h.mux.Handle("POST /hooks/reconcile", c.Webhook)
	}
	if c.Metrics != nil {
		h.mux.HandleFunc("GET /metrics", h.allow(func(w http.ResponseWriter, r *http.Request, _ principal) {
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

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
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
