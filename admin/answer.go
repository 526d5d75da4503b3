package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/operate"
)

// action is what a route does: one method of [operate.Desk].
type action struct {
	// do returns the document of the answer, nil for none, or an [http.Handler] that answers by
	// itself. An error becomes a problem document.
	do func(h *Handler, c *call) (any, error)
	// The types of the parameters of the query, of the body, and of the document; nil: none.
	query, body, gives reflect.Type
}

// by answers by itself.
func by(do func(h *Handler, c *call) (any, error)) action { return action{do: do} }

// of answers a call without parameters.
func of[D any](do func(*visit, context.Context) (D, error)) action {
	return action{query: reflect.TypeFor[none](), gives: reflect.TypeFor[D](), do: func(h *Handler, c *call) (any, error) {
		if err := c.queried(&none{}); err != nil {
			return nil, err
		}
		return do(h.visit(c), c.Context())
	}}
}

// none is a query without parameters.
type none struct{}

// get answers what the query asks for.
func get[Q, D any](do func(*operate.Desk, context.Context, Q) (D, error)) action {
	return getOf(func(*call) none { return none{} }, func(d *operate.Desk, ctx context.Context, _ none, q Q) (D, error) { return do(d, ctx, q) })
}

// getOf answers what the query asks for about what the path names.
func getOf[N, Q, D any](name func(*call) N, do func(*operate.Desk, context.Context, N, Q) (D, error)) action {
	return action{query: reflect.TypeFor[Q](), gives: reflect.TypeFor[D](), do: func(h *Handler, c *call) (any, error) {
		var q Q
		if err := c.queried(&q); err != nil {
			return nil, err
		}
		return do(h.desk(c), c.Context(), name(c), q)
	}}
}

// without takes no parameters.
func without[D any](do func(*operate.Desk, context.Context) (D, error)) func(*operate.Desk, context.Context, none) (D, error) {
	return func(d *operate.Desk, ctx context.Context, _ none) (D, error) { return do(d, ctx) }
}

// withoutOf takes no parameters beside what the path names.
func withoutOf[N, D any](do func(*operate.Desk, context.Context, N) (D, error)) func(*operate.Desk, context.Context, N, none) (D, error) {
	return func(d *operate.Desk, ctx context.Context, n N, _ none) (D, error) { return do(d, ctx, n) }
}

// revealing is the query of what may show more than by default.
type revealing struct {
	Reveal string `json:"reveal"`
	Reason string `json:"reason"`
}

// showMore answers about what the path names, and shows what is not shown by default where the query
// asks for it.
func showMore[N, D any](name func(*call) N, do func(*operate.Desk, context.Context, N) (D, error), reveal func(*operate.Desk, context.Context, N, string) (D, error)) action {
	return getOf(name, func(d *operate.Desk, ctx context.Context, n N, q revealing) (D, error) {
		switch q.Reveal {
		case "1":
			return reveal(d, ctx, n, q.Reason)
		case "", "0":
			return do(d, ctx, n)
		}
		return *new(D), operate.BadParameter("reveal", "it is 1 or 0")
	})
}

// remove does to what the path names what the query says: some clients and proxies allow no body in
// a DELETE.
func remove[N any](name func(*call) N, do func(*operate.Desk, context.Context, N, operate.Change) error) action {
	a := getOf(name, func(d *operate.Desk, ctx context.Context, n N, q removal) (any, error) {
		return nil, do(d, ctx, n, operate.Change{Condition: q.Condition, Reason: q.Reason})
	})
	a.gives = nil
	return a
}

// removal is the query of a DELETE.
type removal struct {
	operate.Condition
	Reason string `json:"reason"`
}

// post does what the body says.
func post[B, D any](do func(*operate.Desk, context.Context, B) (D, error)) action {
	return postTo(func(*call) none { return none{} }, func(d *operate.Desk, ctx context.Context, _ none, b B) (D, error) { return do(d, ctx, b) })
}

// postTo does what the body says to what the path names.
func postTo[N, B, D any](name func(*call) N, do func(*operate.Desk, context.Context, N, B) (D, error)) action {
	return action{body: reflect.TypeFor[B](), gives: reflect.TypeFor[D](), do: func(h *Handler, c *call) (any, error) {
		var b B
		if err := c.read(&b); err != nil {
			return nil, err
		}
		return do(h.desk(c), c.Context(), name(c), b)
	}}
}

// report is a line of JSON for each record that a job did not change.
func (h *Handler) report(c *call) (any, error) {
	failures, err := h.desk(c).Report(c.Context(), job(c))
	var lines bytes.Buffer
	for i := range failures {
		if err := json.NewEncoder(&lines).Encode(&failures[i]); err != nil {
			return nil, err
		}
	}
	return as(http.StatusOK, "application/x-ndjson", lines.Bytes()), err
}

// record is the record that a path names.
func record(c *call) operate.Name {
	if id := c.PathValue("id"); id != "" {
		return operate.Name{Key: id}
	}
	return operate.Name{Scope: c.PathValue("scope"), Key: c.PathValue("key")}
}

func incident(c *call) string { return c.PathValue("incident") }

func message(c *call) string { return c.PathValue("message") }

func job(c *call) string { return c.PathValue("job") }

// desk is what the caller can do.
func (h *Handler) desk(c *call) *operate.Desk { return h.service.For(c.who, c) }

// queried reads the parameters of the query. One that is not known is refused: a mistyped filter
// would select everything, and a mistyped condition would be none.
func (c *call) queried(into any) error {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return operate.BadParameter("query", "it is not properly encoded")
	}
	return named(members.Query(values, into), "query")
}

// named is the problem of what cannot be decoded, of the whole where no member is at fault.
func named(err error, whole string) error {
	if bad, ok := errors.AsType[*members.Error](err); ok {
		return operate.BadParameter(cmp.Or(bad.Member, whole), bad.Problem)
	}
	return err
}

// maxChange bounds the body of a change, in bytes: a response of the size that is kept by default,
// as base64, and the rest.
const maxChange = 2 << 20

// changes counts the bytes of changes that are being read. They are operators', who have memory of
// their own.
var changes = ledger.New(maxChanges, maxChanges/4, 1)

const maxChanges = 16 << 20

var (
	crowded = &operate.Problem{Status: 429, Code: "rate-limited", Title: "Too many changes are being read", Detail: "Nothing was changed. Send it again.", Retryable: true, RetryAfter: "1"}
	showing = &operate.Problem{Status: 429, Code: "rate-limited", Title: "Too many stored answers are being shown", Detail: "Nothing was changed. Send it again.", Retryable: true, RetryAfter: "1"}
)

// read reads the body of a change, one JSON object, into a struct (see [members.Decode]).
func (c *call) read(into any) error {
	buf := changes.Buffer(changes.Owner("operators"))
	defer buf.Drop()
	switch err := buf.Fill(c.Body, c.ContentLength, maxChange); {
	case errors.Is(err, ledger.ErrTooLong):
		return operate.BadParameter("body", "it is over "+strconv.Itoa(maxChange)+" bytes")
	case errors.Is(err, ledger.ErrNoRoom):
		return crowded
	case err != nil:
		return operate.BadParameter("body", "it was cut off")
	}
	return named(members.Decode(buf.Bytes(), into), "body")
}

// bodies counts the bytes of large stored bodies that are read for operators, until they are
// answered. One that is larger than all of it is read alone.
var bodies = ledger.New(maxBodies, 0, 1)

const maxBodies = 32 << 20

// Reserve implements [stet.Room].
func (c *call) Reserve(bytes int64) error {
	if !c.room.Raise(min(bytes, maxBodies), false) {
		return showing
	}
	return nil
}

// refuse answers with a problem.
func (h *Handler) refuse(w http.ResponseWriter, p operate.Problem) {
	p.Type = h.conf.ProblemBase + p.Code
	if p.RetryAfter != "" {
		w.Header().Set("Retry-After", p.RetryAfter)
	}
	reply.Refuse(w, p.Status, p)
}
