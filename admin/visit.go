package admin

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"

	"github.com/stet-dev/stet/operate"
)

// API is what one caller can do with a gateway: all that operators do, and what is the gateway's
// own. [Handler.Enter] returns it for a caller of this process, and a client of package
// adminclient has it over HTTP. What is not configured, and what is not of the caller's scopes, is not
// found.
type API interface {
	operate.API
	// Whoami says who the caller is.
	Whoami(ctx context.Context) (Whoami, error)
	// Routes lists what the requests of each route were told.
	Routes(ctx context.Context) (RouteList, error)
	// Policy returns what is published about idempotency keys.
	Policy(ctx context.Context) (PolicyDoc, error)
	// Settings returns the effective configuration.
	Settings(ctx context.Context) (SettingList, error)
}

// visit is what a caller who was let in can do, for one request.
type visit struct {
	*operate.Desk
	handler *Handler
	who     operate.Caller
}

var _ API = (*visit)(nil)

// SignIn says whether a token is one of the API's; the error says why not. Who shows wrong ones is
// slowed down.
func (h *Handler) SignIn(r *http.Request, token string) error {
	if h.broken != nil {
		return h.unusable()
	}
	return h.admit(&call{Request: r, header: http.Header{}}, "Bearer "+token)
}

// unusable is the problem of a handler whose [Config] cannot be used.
func (h *Handler) unusable() error {
	return &operate.Problem{Status: http.StatusInternalServerError, Title: "The admin API cannot be used", Detail: h.broken.Error()}
}

// Enter lets the sender of a request in, by the rules of the API: by a token that [Handler.SignIn] has
// accepted, or, where token is "", by the request's Authorization, or, where there are no tokens, over
// loopback. A token that was accepted once is never slowed down. The error says why the caller is
// refused. The caller frees the memory of what was read with leave, after it has been used.
func (h *Handler) Enter(r *http.Request, token string) (api API, leave func(), err error) {
	if h.broken != nil {
		return nil, func() {}, h.unusable()
	}
	c := &call{Request: r, header: http.Header{}, room: bodies.Hold(bodies.Owner("operators"))}
	if token == "" || len(h.conf.Tokens) == 0 {
		err = h.admit(c, r.Header.Get("Authorization"))
	} else if err = h.knownHost(r.Host); err == nil {
		t, right := h.match("Bearer " + token)
		if c.who = t.caller(); !right {
			err = wrongToken
		}
	}
	if err != nil {
		return nil, func() {}, operate.ProblemOf(err)
	}
	return h.visit(c), func() {
		if r.Method != http.MethodGet {
			h.service.Forget()
		}
		c.room.Free()
	}, nil
}

// Secret is a secret that all processes with the same tokens share; without tokens, one of this
// process. Who knows the hashes of the tokens can know it: it hides, and proves nothing.
func (h *Handler) Secret() []byte {
	if len(h.conf.Tokens) == 0 {
		return ownSecret()
	}
	return sumOf(h.conf.Tokens)
}

var ownSecret = sync.OnceValue(func() []byte { return []byte(rand.Text()) })

// visit is what the caller can do.
func (h *Handler) visit(c *call) *visit { return &visit{h.service.For(c.who, c), h, c.who} }

// Whoami implements [API].
func (v *visit) Whoami(context.Context) (Whoami, error) {
	return Whoami{Name: v.who.Name, Role: v.who.Role.String(), Scopes: v.who.Scopes, NoToken: len(v.handler.conf.Tokens) == 0}, nil
}

// Whoami is whose token a call came with, and what it allows.
type Whoami struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Scopes  []string `json:"scopes,omitzero"` // as in [Token]
	NoToken bool     `json:"no_token"`        // the call needed none
}

// ofAll is nil where there is something that is about all scopes together, and the caller may see
// all: for a token that is bound to some there is no such thing.
func (v *visit) ofAll(there bool) error {
	if !there || v.who.Bound() {
		return notFound
	}
	return nil
}

// gatewayList is the answer of GET /api/v1/gateways.
type gatewayList struct {
	Gateways []operate.Gateway `json:"gateways"`
}

func (v *visit) gateways(ctx context.Context) (gatewayList, error) {
	if err := v.ofAll(v.handler.conf.Figures != nil); err != nil {
		return gatewayList{}, err
	}
	return gatewayList{some(v.handler.conf.Figures(ctx).Gateways)}, nil
}

// RouteList is the routes that are configured here, in the order in which /policy.json has them, and
// then those that only others have, or that are gone.
type RouteList struct {
	Routes []operate.RouteFigures `json:"routes"`
}

// Routes implements [API].
func (v *visit) Routes(ctx context.Context) (RouteList, error) {
	c := &v.handler.conf
	if err := v.ofAll(c.Figures != nil); err != nil {
		return RouteList{}, err
	}
	counted, all := slices.Clone(c.Figures(ctx).Routes), []operate.RouteFigures{}
	if c.Policy != nil {
		for _, r := range c.Policy().Routes {
			var f operate.RouteFigures
			if i := slices.IndexFunc(counted, func(f operate.RouteFigures) bool { return f.Route == r.Config.Route }); i >= 0 {
				f = counted[i]
				counted = slices.Delete(counted, i, i+1)
			}
			f.Route, f.Match, f.Mode = r.Config.Route, r.Match, r.Config.Mode.String()
			if f.Results == nil {
				f.Results = operate.Results{}
			}
			all = append(all, f)
		}
	}
	return RouteList{append(all, counted...)}, nil
}

// Setting is a line of the effective configuration.
type Setting struct {
	Path    string `json:"path"`
	Value   string `json:"value"` // masked where it is secret
	Origin  string `json:"origin"`
	Doc     string `json:"doc,omitzero"`
	Unit    string `json:"unit,omitzero"`
	Pending string `json:"pending,omitzero"` // what the file says now, where that takes a restart
}

// SettingList is the effective configuration.
type SettingList struct {
	Settings []Setting `json:"settings"`
}

// Settings implements [API].
func (v *visit) Settings(context.Context) (SettingList, error) {
	if err := v.ofAll(v.handler.conf.Settings != nil); err != nil {
		return SettingList{}, err
	}
	return SettingList{some(v.handler.conf.Settings())}, nil
}

// some is a list as JSON has it: empty and not null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
