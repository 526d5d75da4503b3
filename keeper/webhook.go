package keeper

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// Webhook takes a provider's word for what became of an execution: POST with a JSON body and a signature as Standard Webhooks
// has it (https://www.standardwebhooks.com, headers webhook-id, webhook-timestamp, webhook-signature).
//
//	{"scope": "…", "key" | "downstream_key" | "downstream_id": "…", "outcome": "completed" | "not-executed",
//	 "status": 201, "headers": {"Name": ["value"]}, "body_b64": "…", "evidence": "…"}
//
// It answers 200 when the outcome is stored, also when it was before, so that a notice that comes twice changes nothing; 401
// to a signature that is missing, wrong or older than Tolerance; 404 where there is no such record; 409 while it is running,
// and where the name fits several: the provider comes again; 400 to a body that says nothing; 503 where the store is away.
type Webhook struct {
	Engine    *stet.Engine
	Secrets   []string         // "whsec_" and base64, at least one; several while one is being replaced
	Tolerance time.Duration    // default [DefaultTolerance]
	Clock     func() time.Time // default time.Now
	Who       string           // in the history; default "webhook"
}

// DefaultTolerance is how far a notice's timestamp may be from the local clock, and MaxNotice how long a notice may be.
const (
	DefaultTolerance = 5 * time.Minute
	MaxNotice        = 2 << 20
)

// ErrSecret: a webhook secret that is none.
var ErrSecret = errors.New("keeper: a webhook secret is whsec_ and the base64 of 24 to 64 random bytes")

// ParseSecret returns the key in a secret.
func ParseSecret(s string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), "whsec_")
	key, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, ErrSecret
	}
	return key, nil
}

// notice is the body of a webhook.
type notice struct {
	Scope         string              `json:"scope"`
	Key           string              `json:"key"`
	DownstreamKey string              `json:"downstream_key"`
	DownstreamID  string              `json:"downstream_id"`
	Outcome       string              `json:"outcome"`
	Status        int                 `json:"status"`
	Headers       map[string][]string `json:"headers"`
	Body          []byte              `json:"body_b64"`
	Evidence      string              `json:"evidence"`
}

// ServeHTTP implements [http.Handler].
func (h Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		say(w, http.StatusMethodNotAllowed, "a notice is sent by POST")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxNotice))
	if err != nil {
		say(w, http.StatusBadRequest, fmt.Sprintf("the notice was cut off, or is longer than %d bytes", MaxNotice))
		return
	}
	if !h.signed(r.Header, body) { // before a byte of it is looked at
		say(w, http.StatusUnauthorized, "the signature is missing, wrong or too old")
		return
	}
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		say(w, http.StatusBadRequest, "the notice is no JSON of the documented form")
		return
	}
	h.take(w, r, &n)
}

// signed checks all signatures the header lists against all secrets, in constant time.
func (h Webhook) signed(head http.Header, body []byte) bool {
	id, stamp := head.Get("Webhook-Id"), head.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || err != nil {
		return false
	}
	clock, tolerance := h.Clock, h.Tolerance
	if clock == nil {
		clock = time.Now
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if clock().Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	good := false
	for _, secret := range h.Secrets {
		key, err := ParseSecret(secret)
		if err != nil {
			continue
		}
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.", id, stamp)
		_, _ = mac.Write(body)
		want := mac.Sum(nil)
		for _, s := range strings.Fields(head.Get("Webhook-Signature")) {
			text, ok := strings.CutPrefix(s, "v1,")
			have, err := base64.StdEncoding.DecodeString(text)
			good = good || ok && err == nil && hmac.Equal(have, want)
		}
	}
	return good
}

// take ends the record that the notice names.
func (h Webhook) take(w http.ResponseWriter, r *http.Request, n *notice) {
	res, problem := n.resolution()
	if problem != "" {
		say(w, http.StatusBadRequest, problem)
		return
	}
	id, status, problem := h.find(r, n)
	if problem != "" {
		say(w, status, problem)
		return
	}
	note := stet.Note{Who: h.Who, Why: "the provider said so", Evidence: n.Evidence}
	if note.Who == "" {
		note.Who = "webhook"
	}
	got, err := h.Engine.Resolve(r.Context(), id, res, note)
	switch {
	case err == nil:
		h.Engine.Observe(stet.Event{Kind: stet.Probed, ID: id, Route: got.Route, TraceID: got.TraceID, Attempt: got.Attempt, Result: "resolved"})
		say(w, http.StatusOK, "resolved")
	case errors.Is(err, stet.ErrNotFound):
		say(w, http.StatusNotFound, "there is no such record")
	case errors.Is(err, stet.ErrState) && got.State == stet.Running, errors.Is(err, stet.ErrStale):
		say(w, http.StatusConflict, "it is still running; send the notice again later")
	case errors.Is(err, stet.ErrState) && got.State == stet.Unknown: // published
		say(w, http.StatusConflict, "part of an answer was sent: give the status alone")
	case errors.Is(err, stet.ErrState):
		say(w, http.StatusOK, "it was known before")
	default:
		w.Header().Set("Retry-After", "5")
		say(w, http.StatusServiceUnavailable, "the store did not answer; send the notice again")
	}
}

func (n *notice) resolution() (res stet.Resolution, problem string) {
	switch n.Outcome {
	case "not-executed":
		return res, ""
	case "completed":
	default:
		return res, `outcome has to be "completed" or "not-executed"`
	}
	if n.Status < 200 || n.Status > 599 {
		return res, "status has to be that of the answer, 200 to 599"
	}
	res.Response = &stet.Response{Status: n.Status, Body: n.Body}
	for name, values := range n.Headers {
		for _, v := range values {
			res.Response.Header = append(res.Response.Header, stet.Field{Name: http.CanonicalHeaderKey(name), Value: v})
		}
	}
	if problem := badField(res.Response.Header); problem != "" {
		return res, problem
	}
	if n.Body == nil && n.Headers == nil {
		res.Kept = stet.KeptStatus
	}
	return res, ""
}

// badField says what is wrong with headers that will be sent to clients.
func badField(fields []stet.Field) string {
	for _, f := range fields {
		if f.Name == "" || strings.ContainsAny(f.Name, " \r\n:\t\x00") || strings.ContainsAny(f.Value, "\r\n\x00") {
			return "headers have a name or a value that no header can have"
		}
	}
	return ""
}

// find returns the record that the notice names, or what is wrong.
func (h Webhook) find(r *http.Request, n *notice) (id stet.ID, status int, problem string) {
	name := n.DownstreamID
	if name == "" {
		name = n.DownstreamKey
	}
	switch {
	case n.Key != "":
		return n.id(n.Key), 0, ""
	case name == "":
		return id, http.StatusBadRequest, "the notice names no record: it needs key, downstream_key or downstream_id"
	}
	heads, err := h.Engine.Find(r.Context(), name)
	if err != nil {
		return id, http.StatusServiceUnavailable, "the store cannot be asked by downstream names at the moment; send the notice again"
	}
	var found []stet.ID
	for i := range heads {
		if n.Scope == "" || string(heads[i].Scope) == n.Scope {
			found = append(found, heads[i].ID)
		}
	}
	switch len(found) {
	case 0: // the key itself may be what was sent downstream
		return n.id(name), 0, ""
	case 1:
		return found[0], 0, ""
	}
	return id, http.StatusConflict, "several records have that name: name the scope and the key"
}

// defaultScope is the scope of records where none is configured.
const defaultScope = "default"

func (n *notice) id(key string) stet.ID {
	if n.Scope == "" {
		return stet.ID{Scope: defaultScope, Key: stet.Key(key)}
	}
	return stet.ID{Scope: stet.Scope(n.Scope), Key: stet.Key(key)}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
