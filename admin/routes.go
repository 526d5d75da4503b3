package admin

import (
	_ "embed"
	"mime"
	"net/http"
	"strings"

	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/reply"
)

// call is a request, and the operator who makes it.
type call struct {
	*http.Request
	header http.Header // of the answer
	who    principal
	room   ledger.Hold // for a stored body, until the answer has been sent
}

// route is a row of what the handler answers.
type route struct {
	method, path string
	role         Role // which a token needs at least; anyone: not even a token
	// do returns the document of the answer, nil for none, or an [http.Handler] that answers by
	// itself. An error becomes a problem document.
	do    func(h *handler, c *call) (any, error)
	given func(c *Config) bool // whether there is anything behind it; nil: always
}

// anyone is the role of those who need none.
const anyone Role = 255

// byKey are the paths of a record, which are also served as byID: an id needs no scope.
const (
	byKey = "/api/v1/keys/{scope}/{key}"
	byID  = "/api/v1/keys/{id}"
)

var routes = []route{
	{"GET", "/livez", anyone, (*handler).livez, nil},
	{"GET", "/readyz", anyone, (*handler).readyz, nil},
	{"GET", "/api/v1/whoami", Viewer, (*handler).whoami, nil},
	{"GET", "/api/v1/status", Viewer, (*handler).status, nil},
	{"GET", "/api/v1/keys", Viewer, (*handler).list, nil},
	{"GET", byKey, Viewer, (*handler).show, nil},
	{"DELETE", byKey, Admin, (*handler).purge, nil},
	{"POST", byKey + "/resolve", Operator, (*handler).resolve, nil},
	{"POST", byKey + "/release", Operator, (*handler).release, nil},
	{"POST", byKey + "/extend", Operator, (*handler).extend, nil},
	{"POST", byKey + "/probe", Operator, (*handler).ask, nil},
	{"POST", byKey + "/note", Operator, (*handler).annotate, nil},
	{"POST", byKey + "/snooze", Operator, (*handler).snooze, nil},
	{"POST", byKey + "/hand", Operator, (*handler).hand, nil},
	{"GET", "/api/v1/incidents", Viewer, (*handler).incidents, nil},
	{"GET", "/api/v1/incidents/{incident}", Viewer, (*handler).incident, nil},
	{"GET", "/api/v1/find", Viewer, (*handler).sought, nil},
	{"GET", "/api/v1/store", Viewer, ofAllScopes((*handler).store), nil},
	{"POST", "/api/v1/store/accept", Admin, ofAllScopes((*handler).accept), nil},
	{"GET", "/api/v1/audit", Viewer, (*handler).audit, nil},
	{"POST", "/api/v1/audit/erase", Admin, (*handler).erase, nil},
	{"GET", "/api/v1/bulk", Viewer, (*handler).bulkRecent, withBulk},
	{"POST", "/api/v1/bulk", Operator, (*handler).bulkStart, withBulk},
	{"POST", "/api/v1/bulk/count", Operator, (*handler).bulkCount, withBulk},
	{"GET", "/api/v1/bulk/{job}", Viewer, (*handler).bulkShow, withBulk},
	{"GET", "/api/v1/bulk/{job}/report", Viewer, (*handler).bulkReport, withBulk},
	{"POST", "/api/v1/bulk/{job}/stop", Operator, (*handler).bulkStop, withBulk},
	{"POST", "/api/v1/bulk/{job}/resume", Operator, (*handler).bulkResume, withBulk},
	{"GET", "/api/v1/outbox", Viewer, outboxed((*handler).messages), nil},
	{"GET", "/api/v1/outbox/{message}", Viewer, outboxed((*handler).message), nil},
	{"POST", "/api/v1/outbox/{message}/retry", Operator, outboxed((*handler).retry), nil},
	{"POST", "/api/v1/outbox/{message}/discard", Operator, outboxed((*handler).discard), nil},
	{"POST", "/api/v1/outbox/{message}/confirm", Operator, outboxed((*handler).confirm), nil},
	{"GET", "/api/v1/gateways", Viewer, ofAllScopes(unasked((*handler).gateways)), withFigures},
	{"GET", "/api/v1/routes", Viewer, ofAllScopes(unasked((*handler).routeFigures)), withFigures},
	{"GET", "/api/v1/config", Viewer, ofAllScopes(unasked((*handler).settings)),
		func(c *Config) bool { return c.Settings != nil }},
	{"POST", "/hooks/reconcile", anyone, (*handler).hook, func(c *Config) bool { return c.Webhook != nil }},
	{"GET", "/metrics", Viewer, ofAllScopes((*handler).metrics), func(c *Config) bool { return c.Metrics != nil }},
	{"GET", "/policy.json", Viewer, (*handler).policy, func(c *Config) bool { return c.Policy != nil }},
	{"GET", "/openapi.json", anyone, (*handler).openAPI, nil},
	{"GET", "/problems/", anyone, (*handler).problems, nil},
	{"", "/", Viewer, func(*handler, *call) (any, error) { return nil, notFound }, nil},
}

func withBulk(c *Config) bool    { return c.Bulk != nil }
func withFigures(c *Config) bool { return c.Figures != nil }

// ofAllScopes answers a call about all scopes together: for a token that is bound to some there is
// no such thing.
func ofAllScopes(do func(*handler, *call) (any, error)) func(*handler, *call) (any, error) {
	return func(h *handler, c *call) (any, error) {
		if c.who.bound() {
			return nil, notFound
		}
		return do(h, c)
	}
}

// mount registers what the configuration has something behind.
func (h *handler) mount() {
	for _, rt := range routes {
		if rt.given != nil && !rt.given(&h.Config) {
			continue
		}
		h.mux.HandleFunc(strings.TrimSpace(rt.method+" "+rt.path), h.serve(rt))
		if verb, ok := strings.CutPrefix(rt.path, byKey); ok {
			h.mux.HandleFunc(rt.method+" "+byID+verb, h.serve(rt))
		}
	}
}

func (h *handler) serve(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, header: w.Header(), room: bodies.Hold(bodies.Owner("operators"))}
		defer c.room.Free()
		var doc any
		err := h.admit(c, &rt)
		if err == nil {
			doc, err = rt.do(h, c)
			if rt.method != http.MethodGet {
				h.readings.forget()
			}
		}
		if err != nil {
			problemOf(err).write(w)
			return
		}
		switch doc := doc.(type) {
		case nil:
			w.WriteHeader(http.StatusNoContent)
		case http.Handler:
			doc.ServeHTTP(w, r)
		case accepted:
			reply.JSON(w, http.StatusAccepted, reply.Document, doc)
		default:
			reply.JSON(w, http.StatusOK, reply.Document, doc)
		}
	}
}

// admit finds out who makes the call, and whether they may. A change is sent as JSON or by DELETE,
// and not by a page of another origin.
func (h *handler) admit(c *call, rt *route) error {
	if rt.role == anyone {
		return nil
	}
	if !h.knownHost(c.Host) {
		return forbidden("This Host is not served here: use localhost, an IP address, or a name that is configured.")
	}
	if err := h.login(c); err != nil {
		return err
	}
	media, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type"))
	switch change := rt.method == http.MethodPost || rt.method == http.MethodDelete; {
	case c.who.role < rt.role:
		return lacks(c.who, rt.role)
	case change && h.foreign.Check(c.Request) != nil:
		return forbidden("Changes are not taken from pages of other origins.")
	case rt.method == http.MethodPost && media != reply.Document:
		return notJSON
	case rt.method == http.MethodPost && c.URL.RawQuery != "":
		return badParameter("query", "a change has none; send its parameters in the body")
	}
	return nil
}

// openAPIDocument is written by a test from the routes and the types of their documents, so that it
// says what they are.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI answers GET /openapi.json. It is as public as the project.
func (h *handler) openAPI(*call) (any, error) {
	return as(http.StatusOK, reply.Document, openAPIDocument), nil
}
