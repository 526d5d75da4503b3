package admin

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/stethttp"
)

// Config configures the handler. The zero value serves every record to every client that connects
// over loopback or through a Unix socket.
type Config struct {
	// What the service behind the handler works with; [New] adds the engine. Clients are by default
	// those of the Policy, and the CursorSecret is made from the Tokens.
	operate.Config

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

	// ProblemBase is the prefix of problem types, followed by the code; default
	// [stethttp.DefaultProblemBase].
	ProblemBase string

	// Webhook serves POST /hooks/reconcile, such as a [reconcile.Webhook]; nil means 404.
	Webhook http.Handler

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
}

// Handler serves one engine's records. It is safe for concurrent use.
type Handler struct {
	service *operate.Service
	conf    Config
	broken  error // what is wrong with the Config: it answers nothing else
	mux     *http.ServeMux
	foreign http.CrossOriginProtection // knows the pages of other origins; programs send none

	asking  sync.Mutex
	asked   time.Time // when the store was asked last by who may be anybody
	answers bool      // whether it answered
}

// New returns the handler for the records of one engine. One whose [Config] cannot be used answers
// whatever it is asked with what is wrong.
func New(e *stet.Engine, c Config) *Handler {
	c.Who, c.Throttle = cmp.Or(c.Who, "loopback"), cmp.Or(c.Throttle, new(Throttle))
	c.ProblemBase = cmp.Or(c.ProblemBase, stethttp.DefaultProblemBase)
	c.Engine, c.Log, c.CursorSecret = e, cmp.Or(c.Log, slog.New(slog.DiscardHandler)), sumOf(c.Tokens)
	if c.Clients == nil && c.Policy != nil {
		c.Clients = c.clients
	}
	service, err := operate.New(c.Config)
	if err := cmp.Or(configBounds.Check(&c), err); err != nil {
		return &Handler{broken: err}
	}
	h := &Handler{service: service, conf: c, mux: http.NewServeMux()}
	h.mount()
	return h
}

// sumOf is a secret of all who have the same tokens.
func sumOf(tokens []Token) []byte {
	sums := make([][]byte, len(tokens))
	for i := range tokens {
		sums[i] = tokens[i].SHA256[:]
	}
	slices.SortFunc(sums, bytes.Compare)
	return bytes.Join(sums, nil)
}

// clients are what the clients of a route are told, by the policy.
func (c *Config) clients(route string) (longest time.Duration, accepted bool) {
	for _, known := range c.Policy().Routes {
		if known.Config.Route == route {
			return known.Config.RetryAfterMax, known.Config.Waiting == stethttp.Accepted
		}
	}
	return 0, false
}

var configBounds = bounds.For[Config](
	bounds.Number("Tokens[].Role", int64(operate.Viewer), int64(operate.Admin)),
	bounds.Free("Settle", "operate.New checks it"),
)

// Marker is a header of every answer of the handler, with the value 1. An answer without it comes
// from another server: a client should not believe it, and should not send its token there. Only
// answers that net/http gives by itself lack it, such as the one to a header that is too long.
const Marker = "Stet-Admin"

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set(Marker, "1")
	if h.broken != nil {
		http.Error(w, h.broken.Error(), http.StatusInternalServerError)
		return
	}
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.mux.ServeHTTP(w, r)
}

// livez: the process answers.
func (h *Handler) livez(*call) (any, error) { return text(http.StatusOK, "alive"), nil }

// readyz: the store answers within its deadline, nothing is known that speaks against it, and the
// end has not been asked for.
func (h *Handler) readyz(c *call) (any, error) {
	if h.conf.Draining != nil && h.conf.Draining() {
		return text(http.StatusServiceUnavailable, "draining"), nil
	}
	if h.conf.Unready != nil {
		if why := h.conf.Unready(); why != "" {
			return text(http.StatusServiceUnavailable, why), nil
		}
	}
	if !h.storeAnswers(c.Context()) {
		return text(http.StatusServiceUnavailable, "the store does not answer"), nil
	}
	return text(http.StatusOK, "ready"), nil
}

// readyFor is how long an answer of the store is good for those who ask whether it is ready: they
// show no token, and could load it otherwise.
const readyFor = time.Second

// storeAnswers reports whether the store answers, or answered a moment ago. Those who ask meanwhile
// wait for the one who does.
func (h *Handler) storeAnswers(ctx context.Context) bool {
	h.asking.Lock()
	defer h.asking.Unlock()
	if time.Since(h.asked) >= readyFor {
		h.answers = h.service.Ask(context.WithoutCancel(ctx)) == nil
		h.asked = time.Now()
	}
	return h.answers
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

func (h *Handler) metrics(c *call) (any, error) {
	if c.who.Bound() {
		return nil, notFound
	}
	return h.conf.Metrics, nil
}

// hook needs no token: what a provider sends is signed.
func (h *Handler) hook(*call) (any, error) { return h.conf.Webhook, nil }

// problems are as public as the project.
func (h *Handler) problems(*call) (any, error) { return problems.Handler(), nil }
