package admin

import (
	_ "embed"
	"mime"
	"net/http"
	"strings"

	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/operate"
)

// call is a request, and the operator who makes it.
type call struct {
	*http.Request
	header http.Header // of the answer
	who    operate.Caller
	room   ledger.Hold // for a stored body, until the answer has been sent
}

// route is a row of what the handler answers.
type route struct {
	method, path string
	role         operate.Role // which a token needs at least; anyone: not even a token
	action
	given func(c *Config) bool // whether there is anything behind it; nil: always
}

// anyone is the role of those who need none.
const anyone operate.Role = 255

// byKey are the paths of a record, which are also served as byID: an id needs no scope.
const (
	byKey = "/api/v1/keys/{scope}/{key}"
	byID  = "/api/v1/keys/{id}"
)

const (
	viewer   = operate.Viewer
	operator = operate.Operator
	admin    = operate.Admin
)

type desk = operate.Desk

var routes = []route{
	{"GET", "/livez", anyone, by((*Handler).livez), nil},
	{"GET", "/readyz", anyone, by((*Handler).readyz), nil},
	{"GET", "/api/v1/whoami", viewer, of((*visit).Whoami), nil},
	{"GET", "/api/v1/status", viewer, get(without((*desk).Overview)), nil},
	{"GET", "/api/v1/keys", viewer, get((*desk).Records), nil},
	{"GET", byKey, viewer, showMore(record, (*desk).Record, (*desk).Reveal), nil},
	{"DELETE", byKey, admin, remove(record, (*desk).Delete), nil},
	{"POST", byKey + "/resolve", operator, postTo(record, (*desk).Resolve), nil},
	{"POST", byKey + "/release", operator, postTo(record, (*desk).Release), nil},
	{"POST", byKey + "/extend", operator, postTo(record, (*desk).Extend), nil},
	{"POST", byKey + "/probe", operator, postTo(record, (*desk).Probe), nil},
	{"POST", byKey + "/note", operator, postTo(record, (*desk).Note), nil},
	{"POST", byKey + "/snooze", operator, postTo(record, (*desk).Snooze), nil},
	{"POST", byKey + "/hand", operator, postTo(record, (*desk).Hand), nil},
	{"GET", "/api/v1/incidents", viewer, get((*desk).Incidents), nil},
	{"GET", "/api/v1/incidents/{incident}", viewer, getOf(incident, (*desk).Incident), nil},
	{"GET", "/api/v1/find", viewer, get((*desk).Find), nil},
	{"GET", "/api/v1/store", viewer, get(without((*desk).Store)), nil},
	{"POST", "/api/v1/store/accept", admin, post((*desk).AcceptStore), nil},
	{"GET", "/api/v1/audit", viewer, get((*desk).Audit), nil},
	{"POST", "/api/v1/audit/erase", admin, post((*desk).Erase), nil},
	{"GET", "/api/v1/bulk", viewer, get(without((*desk).RecentJobs)), withBulk},
	{"POST", "/api/v1/bulk", operator, post((*desk).Start), withBulk},
	{"POST", "/api/v1/bulk/count", operator, post((*desk).Preview), withBulk},
	{"GET", "/api/v1/bulk/{job}", viewer, getOf(job, withoutOf((*desk).Job)), withBulk},
	{"GET", "/api/v1/bulk/{job}/report", viewer, by((*Handler).report), withBulk},
	{"POST", "/api/v1/bulk/{job}/stop", operator, postTo(job, (*desk).StopJob), withBulk},
	{"GET", "/api/v1/outbox", viewer, get((*desk).Messages), nil},
	{"GET", "/api/v1/outbox/{message}", viewer, showMore(message, (*desk).Message, (*desk).RevealMessage), nil},
	{"POST", "/api/v1/outbox/{message}/retry", operator, postTo(message, (*desk).Retry), nil},
	{"POST", "/api/v1/outbox/{message}/discard", operator, postTo(message, (*desk).Discard), nil},
	{"POST", "/api/v1/outbox/{message}/confirm", operator, postTo(message, (*desk).Confirm), nil},
	{"GET", "/api/v1/gateways", viewer, of((*visit).gateways), withFigures},
	{"GET", "/api/v1/routes", viewer, of((*visit).Routes), withFigures},
	{"GET", "/api/v1/config", viewer, of((*visit).Settings),
		func(c *Config) bool { return c.Settings != nil }},
	{"POST", "/hooks/reconcile", anyone, by((*Handler).hook), func(c *Config) bool { return c.Webhook != nil }},
	{"GET", "/metrics", viewer, by((*Handler).metrics), func(c *Config) bool { return c.Metrics != nil }},
	{"GET", "/policy.json", viewer, of((*visit).Policy), func(c *Config) bool { return c.Policy != nil }},
	{"GET", "/openapi.json", anyone, by((*Handler).openAPI), nil},
	{"GET", "/problems/", anyone, by((*Handler).problems), nil},
	{"", "/", viewer, by(func(*Handler, *call) (any, error) { return nil, notFound }), nil},
}

func withBulk(c *Config) bool    { return c.Jobs != nil }
func withFigures(c *Config) bool { return c.Figures != nil }

// mount registers what the configuration has something behind.
func (h *Handler) mount() {
	for _, rt := range routes {
		if rt.given != nil && !rt.given(&h.conf) {
			continue
		}
		h.mux.HandleFunc(strings.TrimSpace(rt.method+" "+rt.path), h.serve(rt))
		if verb, ok := strings.CutPrefix(rt.path, byKey); ok {
			h.mux.HandleFunc(rt.method+" "+byID+verb, h.serve(rt))
		}
	}
}

func (h *Handler) serve(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, header: w.Header(), room: bodies.Hold(bodies.Owner("operators"))}
		defer c.room.Free()
		var doc any
		err := h.allow(c, &rt)
		if err == nil {
			if rt.method != http.MethodGet {
				defer h.service.Forget()
			}
			doc, err = rt.do(h, c)
		}
		if err != nil {
			h.refuse(w, *operate.ProblemOf(err))
			return
		}
		switch doc := doc.(type) {
		case nil:
			w.WriteHeader(http.StatusNoContent)
		case http.Handler:
			doc.ServeHTTP(w, r)
		case operate.Started:
			reply.JSON(w, http.StatusAccepted, reply.Document, doc)
		default:
			reply.JSON(w, http.StatusOK, reply.Document, doc)
		}
	}
}

// allow finds out who makes the call, and whether they may. A change is sent as JSON or by DELETE,
// and not by a page of another origin.
func (h *Handler) allow(c *call, rt *route) error {
	if rt.role == anyone {
		return nil
	}
	if err := h.admit(c, c.Header.Get("Authorization")); err != nil {
		return err
	}
	media, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type"))
	switch change := rt.method == http.MethodPost || rt.method == http.MethodDelete; {
	case c.who.Takes(rt.role) != nil:
		return c.who.Takes(rt.role)
	case change && h.foreign.Check(c.Request) != nil:
		return operate.Forbidden("Changes are not taken from pages of other origins.")
	case rt.method == http.MethodPost && media != reply.Document:
		return notJSON
	case rt.method == http.MethodPost && c.URL.RawQuery != "":
		return operate.BadParameter("query", "a change has none; send its parameters in the body")
	}
	return nil
}

// openAPIDocument is written by a test from the routes and the types of their documents, so that it
// says what they are.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI answers GET /openapi.json. It is as public as the project.
func (h *Handler) openAPI(*call) (any, error) {
	return as(http.StatusOK, reply.Document, openAPIDocument), nil
}
