package console

import (
	"cmp"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/sealed"
)

// Config configures the console. The zero value works.
type Config struct {
	// ProbeMethod and ProbeURL are what the reconciler asks, as in its configuration, without
	// secrets. A key's page shows them to every viewer, as a line to run by hand. Without a
	// ProbeURL there is no such line; ProbeMethod is GET where it is empty.
	ProbeMethod, ProbeURL string
	// Sessions are those that their users have ended. A process that makes another console when its
	// configuration changes hands the same ones to both; nil means that the console has its own.
	Sessions *Sessions
	// Now is the clock of the pages, which say ages and instants by it; nil means [time.Now].
	// Sessions end by the process's own clock.
	Now func() time.Time
	// Log gets an entry where a page could not be drawn; nil means no log.
	Log *slog.Logger
}

// patience is how long a page waits for what is read of all unknown records: after that it is drawn
// from what was read last, and says when that was, or that it is not read yet. After waitAfter times
// that the frame of a page is sent without its content, which follows.
const patience = 300 * time.Millisecond

// Door is what the console is in front of: an [admin.Handler] is one.
type Door interface {
	// ServeHTTP answers requests that are not for a page: those of the API, and for metrics.
	http.Handler
	// SignIn says whether a token is one of the API's: see [admin.Handler.SignIn].
	SignIn(r *http.Request, token string) error
	// Enter lets the sender of a request in: see [admin.Handler.Enter].
	Enter(r *http.Request, token string) (api admin.API, leave func(), err error)
	// Secret is one of all processes with the same tokens: see [admin.Handler.Secret].
	Secret() []byte
}

// console serves the pages behind one door.
type console struct {
	Config
	door    Door
	mux     *http.ServeMux // of pages and forms
	assets  assets
	box     sealed.Box // of what browsers keep
	csrf    string     // in the forms of those who need no session; pages of other origins cannot read it
	foreign *http.CrossOriginProtection

	patience time.Duration // which tests set
}

// New returns the console in front of an admin API. It is safe for concurrent use.
func New(door Door, c Config) http.Handler {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.ProbeMethod = cmp.Or(c.ProbeMethod, http.MethodGet)
	c.Sessions = cmp.Or(c.Sessions, NewSessions())
	if c.Now == nil {
		c.Now = time.Now
	}
	csrf, err := hkdf.Key(sha256.New, door.Secret(), nil, "stet console forms", 16)
	if err != nil {
		panic("console: " + err.Error()) // of another length
	}
	h := &console{Config: c, door: door, mux: http.NewServeMux(), assets: loadAssets(), csrf: hex.EncodeToString(csrf),
		box: sealed.Shared(door.Secret(), "stet console"), foreign: http.NewCrossOriginProtection(), patience: patience}
	h.mount()
	return h
}

// ofAPI are the paths that are not the console's: those that end in a slash with all below them.
var ofAPI = []string{"/api/", "/hooks/", "/problems/", "/livez", "/readyz", "/metrics", "/policy.json", "/openapi.json"}

func isAPI(path string) bool {
	return slices.ContainsFunc(ofAPI, func(p string) bool {
		return path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
	})
}

// security is the policy of every answer of the console: nothing but its own files, no inline
// script or style, and no frame of any page.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements [http.Handler].
func (h *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isAPI(r.URL.Path) {
		h.door.ServeHTTP(w, r)
		return
	}
	head := w.Header()
	head.Set(admin.Marker, "1")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", security)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	// With no-referrer, browsers send a form's Origin as null, which no check could tell from a
	// page of another origin.
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.mux.ServeHTTP(w, r)
}
