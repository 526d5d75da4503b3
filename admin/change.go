package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
)

// maxChange bounds the body of a change, in bytes: a response of the size that is kept by default, as base64, and the rest.
const maxChange = 2 << 20

// changes counts the bytes of changes that are being read. They are operators', who have memory of their own.
var changes = ledger.New(maxChanges, maxChanges/4, 1)

const maxChanges = 16 << 20

var (
	stateChanged   = problem{Status: 409, Code: "state-changed", Title: "The record's state does not allow this", Detail: "It is in another state, or was changed meanwhile. Look at it again."}
	reasonRequired = problem{Status: 400, Code: "reason-required", Title: "A change needs a reason", Detail: "Say why in reason: it is kept in the audit trail."}
	contradicted   = problem{Status: 409, Code: "contradicted", Title: "A late answer says that it happened",
		Detail: "The handler came back too late, with an answer that is kept with the record. Resolve it as completed; or send \"override\": true where you know better, which the audit trail keeps."}
	notSettled = problem{Status: 409, Code: "not-settled", Title: "The handler may still be running",
		Detail: "Its process says that it has not returned, so that it may still happen. Wait until it has; or send \"override\": true where you know better, which the audit trail keeps."}
	crowded   = problem{Status: 429, Code: "rate-limited", Title: "Too many changes are being read", Detail: "Nothing was changed. Send it again.", Retryable: true}
	noHistory = problem{Status: 501, Code: "not-supported", Title: "This store keeps no audit trail", Detail: "Changes are in the log of the process that made them."}
)

// changing lets a change through to f: by somebody of a role, in JSON or by DELETE, and not from a page of another origin.
func (h *handler) changing(role Role, f func(http.ResponseWriter, *http.Request, principal)) http.HandlerFunc {
	return h.allow(func(w http.ResponseWriter, r *http.Request, who principal) {
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case who.role < role:
			lacks(who, role).write(w)
		case !sameOrigin(r):
			forbidden("Changes are not taken from pages of other origins.").write(w)
		case r.Method == http.MethodPost && media != "application/json":
			problem{Status: http.StatusUnsupportedMediaType, Code: "not-json", Title: "A change is sent as JSON", Detail: "Send Content-Type: application/json."}.write(w)
		default:
			f(w, r, who)
		}
	})
}

// sameOrigin: programs send no Origin; pages do, also those that somebody else made (CSRF).
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

// resolution is the body of POST …/resolve and …/release.
type resolution struct {
	Outcome   string              `json:"outcome"`
	Status    int                 `json:"status"`
	Headers   map[string][]string `json:"headers"`
	Body      *string             `json:"body"`
	BodyBytes []byte              `json:"body_b64"`
	Evidence  string              `json:"evidence"`
	Reason    string              `json:"reason"`
	IfVersion stet.Version        `json:"if_version"`
	Override  bool                `json:"override"` // not-executed, against what the record knows
}

func readChange(w http.ResponseWriter, r *http.Request) (c resolution, bad *problem) {
	buf := changes.Buffer(changes.Owner("operators"))
	defer buf.Drop()
	switch err := buf.Fill(r.Body, r.ContentLength, maxChange); {
	case errors.Is(err, ledger.ErrTooLong):
		return c, badParameter("body", "it is over "+strconv.Itoa(maxChange)+" bytes")
	case errors.Is(err, ledger.ErrNoRoom):
		w.Header().Set("Retry-After", "1")
		return c, &crowded
	case err != nil:
		return c, badParameter("body", "it was cut off")
	}
	dec := json.NewDecoder(bytes.NewReader(buf.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, badParameter("body", "it has to be one JSON object of outcome, status, headers, body or body_b64, evidence, reason, if_version, override")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return c, badParameter("body", "something follows the JSON object")
	}
	if c.Reason == "" {
		return c, &reasonRequired
	}
	return c, nil
}

// outcome translates what was sent.
func (c *resolution) outcome() (res stet.Resolution, bad *problem) {
	res.Version, res.Override = c.IfVersion, c.Override
	switch c.Outcome {
	case "not-executed":
		return res, nil
	case "completed":
	default:
		return res, badParameter("outcome", "it is completed or not-executed")
	}
	switch {
	case c.Status < 200 || c.Status > 599:
		return res, badParameter("status", "it is the status that retries get, 200 to 599")
	case c.Body != nil && c.BodyBytes != nil:
		return res, badParameter("body", "body and body_b64 are two bodies; send one")
	}
	res.Response = &stet.Response{Status: c.Status, Body: c.BodyBytes}
	if c.Body != nil {
		res.Response.Body = []byte(*c.Body)
	}
	for name, values := range c.Headers {
		for _, v := range values {
			if !validField(name, v) {
				return res, badParameter("headers", "a name or a value is none that a header can have")
			}
			res.Response.Header = append(res.Response.Header, stet.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: v})
		}
	}
	return res, nil
}

// validField: RFC 9110 section 5.
func validField(name, value string) bool {
	if name == "" {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// resolve answers POST …/resolve.
func (h *handler) resolve(w http.ResponseWriter, r *http.Request, who principal) {
	c, bad := readChange(w, r)
	if bad == nil {
		var res stet.Resolution
		if res, bad = c.outcome(); bad == nil {
			h.end(w, r, who, res, stet.Note{Who: who.name, Why: c.Reason, Evidence: c.Evidence})
			return
		}
	}
	bad.write(w)
}

// release answers POST …/release: it was not executed.
func (h *handler) release(w http.ResponseWriter, r *http.Request, who principal) {
	c, bad := readChange(w, r)
	if bad != nil {
		bad.write(w)
		return
	}
	h.end(w, r, who, stet.Resolution{Version: c.IfVersion, Override: c.Override}, stet.Note{Who: who.name, Why: c.Reason, Evidence: c.Evidence})
}

func (h *handler) end(w http.ResponseWriter, r *http.Request, who principal, res stet.Resolution, n stet.Note) {
	rec, err := h.find(r.Context(), who, stet.Scope(r.PathValue("scope")), r.PathValue("key"))
	if err != nil {
		failed(err).write(w)
		return
	}
	head, err := h.engine.Resolve(r.Context(), rec.ID, res, n)
	if err != nil {
		failed(err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, NewRecord(h.engine.Tag(head.ID), &head))
}

// purge answers DELETE.
func (h *handler) purge(w http.ResponseWriter, r *http.Request, who principal) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		badParameter("query", "it is not properly encoded").write(w)
		return
	}
	var version uint64
	if v := values.Get("if_version"); v != "" {
		if version, err = strconv.ParseUint(v, 10, 63); err != nil {
			badParameter("if_version", "it is the record's version").write(w)
			return
		}
	}
	if values.Get("reason") == "" {
		reasonRequired.write(w)
		return
	}
	rec, err := h.find(r.Context(), who, stet.Scope(r.PathValue("scope")), r.PathValue("key"))
	if err == nil {
		err = h.engine.Purge(r.Context(), rec.ID, stet.Version(version), stet.Note{Who: who.name, Why: values.Get("reason")})
	}
	if err != nil {
		failed(err).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// failed says why a record could not be read or changed.
func failed(err error) *problem {
	switch {
	case errors.Is(err, stet.ErrNotFound):
		return &notFound
	case errors.Is(err, stet.ErrCorrupt):
		return &unreadable
	case errors.Is(err, ErrTooMany):
		return &tooMany
	case errors.Is(err, stet.ErrContradicted):
		return &contradicted
	case errors.Is(err, stet.ErrAttended):
		return &notSettled
	case errors.Is(err, stet.ErrState), errors.Is(err, stet.ErrStale), errors.Is(err, stet.ErrOtherAttempt):
		return &stateChanged
	case errors.Is(err, stet.ErrNoReason):
		return &reasonRequired
	}
	return &unavailable
}

// Entry is a line of the audit trail.
type Entry struct {
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Action   string    `json:"action"` // see [stet.Change.Action]
	ID       string    `json:"id"`
	Scope    string    `json:"scope"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Reason   string    `json:"reason"`
	Evidence string    `json:"evidence,omitzero"`
	Notice   string    `json:"notice,omitzero"` // the webhook-id of the notice that asked for it
}

// audit answers GET /api/v1/audit.
func (h *handler) audit(w http.ResponseWriter, r *http.Request, who principal) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		badParameter("query", "it is not properly encoded").write(w)
		return
	}
	q := stet.HistoryQuery{After: values.Get("cursor")}
	for name, v := range values {
		switch {
		case name != "cursor" && name != "limit":
			badParameter(name, "there is no such parameter: cursor, limit").write(w)
			return
		case name == "limit":
			if q.Limit, err = strconv.Atoi(v[0]); err != nil || q.Limit < 1 || q.Limit > stet.MaxLimit {
				badParameter(name, "it is a number from 1 to "+strconv.Itoa(stet.MaxLimit)).write(w)
				return
			}
		}
	}
	changes, next, err := h.engine.History(r.Context(), q)
	switch {
	case errors.Is(err, stet.ErrNoHistory):
		noHistory.write(w)
		return
	case err != nil && q.After != "":
		badParameter("cursor", "it is not from this store; start without one").write(w)
		return
	case err != nil:
		unavailable.write(w)
		return
	}
	page := struct {
		Entries []Entry `json:"entries"`
		Next    string  `json:"next_cursor"`
	}{make([]Entry, 0, len(changes)), next}
	for i := range changes {
		c := &changes[i]
		if !who.allows(c.ID.Scope) {
			continue
		}
		page.Entries = append(page.Entries, Entry{At: c.At.UTC(), Who: c.Note.Who, Action: c.Action(), ID: h.engine.Tag(c.ID),
			Scope: string(c.ID.Scope), From: c.From.String(), To: c.To.String(), Reason: c.Note.Why, Evidence: c.Note.Evidence, Notice: c.Note.Notice})
	}
	writeJSON(w, http.StatusOK, page)
}
