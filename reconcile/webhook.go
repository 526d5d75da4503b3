package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/stethttp"
)

// Webhook is an [http.Handler] that takes a provider's notice of what became of an execution: POST
// with a JSON body, signed as Standard Webhooks has it (https://www.standardwebhooks.com, headers
// webhook-id, webhook-timestamp, webhook-signature).
//
//	{"scope": "…", "key" | "downstream_key" | "downstream_id": "…",
//	 "outcome": "completed" | "not-executed", "fence": 1700000000000001, "status": 201,
//	 "headers": {"Name": ["value"]}, "body_b64": "…", "evidence": "…"}
//
// Other members, and members that come twice, are refused. Several names may be given, and each has
// to be the record's. Downstream names are looked for within the scope, or in all scopes if none is
// given.
//
// A notice says which execution of the key it is about (see [stet.Execution]): by fence, which is
// what the upstream received as Stet-Fence. For "completed" a downstream_key that Stet made
// suffices, since it names a life of the key, and finds the record by itself; and so does a
// downstream_id that the execution has reported, where it has no recovery points. "not-executed"
// frees the key, and so an earlier attempt of the same life must not be mistaken for the last one. A
// notice that names less is refused with 400, and one about an earlier execution with 409
// state-changed. If that one says "completed", a [stet.DoubleEffect] is told as well.
//
// It answers 200 {"result":"resolved"} when the outcome is stored, and {"result":"known"} when
// there was nothing to store: this webhook-id was taken before, or the record has this outcome
// already. Standard Webhooks delivers at least once and signs each delivery anew; on a store that
// is a [stet.Historian] the id is kept with the change, so that it changes a record once. Any other
// answer is a problem document (RFC 9457), and nothing has changed: 400 to a body that cannot be
// used; 401 to a signature that is missing, wrong, or older than Tolerance; 404 if there is no such
// record; 409 if the record does not allow it (with a code: state-changed, in-progress,
// contradicted, attended, published, ambiguous); 413 to more than 256 KiB; 429 with Retry-After
// while 8 MiB of notices are being read; 503 if the store does not answer. Set-Cookie and headers
// that belong to one exchange are not stored.
//
// One that is contradicted is told here as well: as a [stet.Probed] event, and by an entry of the
// history with [ActionContradiction], at each delivery. If it says "completed" of a key that was
// freed, the record is unknown again.
type Webhook struct {
	Engine    *stet.Engine     // whose records the notices are about; required
	Secrets   []string         // "whsec_" and base64, at least one; two while one is being replaced
	Tolerance time.Duration    // how far a notice's timestamp may be from the clock; 0 means 5 min
	Clock     func() time.Time // the local clock; nil means time.Now
	Who       string           // the name in the history; default "webhook"
	Provider  string           // how notices are signed and written; default "standard-webhooks", the only one
	// ProblemBase is the prefix of problem types, followed by the code; default
	// [stethttp.DefaultProblemBase].
	ProblemBase string
}

var webhookBounds = bounds.For[Webhook](bounds.Duration("Tolerance", bounds.Short, bounds.Long).OrDefault())

// maxNotice bytes are enough for a response of 190 KiB as base64; a longer response is sent as its
// status alone. Half of maxNotices, the bytes that a process holds at a time, is for notices of up
// to 16 KiB, which most are.
const (
	defaultTolerance = 5 * time.Minute
	maxNotice        = 256 << 10
	maxNotices       = 8 << 20
)

// held counts the bytes of notices that are being read. The signature is of the body, so that a
// body has no owner before it is read. Notices therefore have memory of their own: unsigned ones
// cannot take memory from requests.
var held = ledger.New(maxNotices, maxNotices/2, 1)

// Validate returns what is wrong with Provider, Secrets and Tolerance. The Engine may be missing
// yet.
func (h Webhook) Validate() error {
	if err := webhookBounds.Check(&h); err != nil {
		return err
	}
	if len(h.Secrets) == 0 {
		return errors.New("reconcile: a Webhook needs Secrets")
	}
	p, err := h.provider()
	if err != nil {
		return err
	}
	for _, s := range h.Secrets {
		if _, err := p.Secret(s); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (h Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.refuse(w, methodNotAllowed, "A notice is sent by POST.")
		return
	}
	p, err := h.provider()
	var s signature
	signed := err == nil && webhookBounds.Check(&h) == nil
	if signed {
		s, signed = p.Verify(r.Header)
	}
	if !signed || !h.fresh(s.At) {
		h.refuse(w, ofLayer(stethttp.Unauthenticated), notSigned)
		return
	}
	buf := held.Buffer(held.Owner("notices"))
	defer buf.Drop()
	switch err := buf.Fill(r.Body, r.ContentLength, maxNotice); {
	case errors.Is(err, ledger.ErrTooLong): // of one that is sent in chunks it shows late
		h.refuse(w, ofLayer(stethttp.PayloadTooLarge), fmt.Sprintf("A notice has at most %d bytes.", maxNotice))
		return
	case errors.Is(err, ledger.ErrNoRoom):
		w.Header().Set("Retry-After", "1")
		h.refuse(w, ofLayer(stethttp.RateLimited), "Too many notices are being read: send the notice again.")
		return
	case err != nil:
		h.refuse(w, invalidNotice, "The notice was cut off.")
		return
	}
	body := buf.Bytes()
	if !h.signedBy(&p, &s, body) { // before a byte of it is looked at
		h.refuse(w, ofLayer(stethttp.Unauthenticated), notSigned)
		return
	}
	n, problem := p.Decode(body)
	if problem == "" {
		problem = n.resolve()
	}
	if problem != "" {
		h.refuse(w, invalidNotice, problem)
		return
	}
	h.take(w, r, n, s.ID)
}

const notSigned = "The signature is missing, wrong or too old: see https://www.standardwebhooks.com."

// signedBy reports whether one of the secrets has signed the body.
func (h *Webhook) signedBy(p *provider, s *signature, body []byte) (good bool) {
	for _, text := range h.Secrets {
		key, err := p.Secret(text)
		good = err == nil && s.Signs(key, body) || good
	}
	return good
}

// fresh reports whether an instant is within Tolerance of the clock.
func (h *Webhook) fresh(at time.Time) bool {
	now := time.Now
	if h.Clock != nil {
		now = h.Clock
	}
	return now().Sub(at).Abs() <= cmp.Or(h.Tolerance, defaultTolerance)
}

// take ends the record that the notice names.
func (h Webhook) take(w http.ResponseWriter, r *http.Request, n *notice, webhookID string) {
	id, why, problem := h.find(r, n)
	if problem != "" {
		h.refuse(w, why, problem)
		return
	}
	note := stet.Note{Who: h.who(), Why: "the provider said so",
		Evidence: n.Evidence, Notice: webhookID}
	got, err := h.Engine.Operator().Resolve(r.Context(), id, n.about, n.resolution, note)
	switch {
	case err == nil:
		h.tell(&got, "resolved")
		reply.JSON(w, http.StatusOK, reply.Document, map[string]string{"result": "resolved"})
	case errors.Is(err, stet.ErrKnown):
		known(w)
	case errors.Is(err, stet.ErrNotFound):
		h.refuse(w, reply.NotFound, "There is no such record.")
	case errors.Is(err, stet.ErrOtherRun) && !n.isCalled(&got):
		h.refuse(w, reply.NotFound, "There is no record with these names: each name that is given has to be the record's.")
	case errors.Is(err, stet.ErrOtherRun):
		h.refuse(w, reply.StateChanged, fmt.Sprintf("The notice is about another execution than the record's, which is at "+
			"attempt %d: send what became of that one.", got.Attempt))
	case errors.Is(err, stet.ErrUnnamed): // what the provider's decoder has let pass
		h.refuse(w, invalidNotice, "The notice does not say which execution of the key it is about: send the fence that the upstream "+
			"was sent (Stet-Fence). For \"completed\", a downstream_key is enough if it is the one that Stet made (Stet-Downstream-Key), since "+
			"one that the handler chose may name several lives; and so is a downstream_id of an execution without recovery points.")
	case errors.Is(err, stet.ErrContradicted) && n.resolution.Response != nil:
		h.contradict(w, r, &got, n, fmt.Sprintf("The handler's own answer is held, with status %d, and is another outcome or has another "+
			"body: have an operator decide.", got.Status))
	case errors.Is(err, stet.ErrContradicted):
		h.contradict(w, r, &got, n, "The handler's own answer is held, and says that it happened: send \"completed\", or have "+
			"an operator decide.")
	case errors.Is(err, stet.ErrAttended):
		h.refuse(w, attended, "The handler has not returned, so that it may still happen: send the notice again later.")
	case errors.Is(err, stet.ErrState), errors.Is(err, stet.ErrStale):
		h.moved(w, r, &got, n, err)
	case errors.Is(err, stet.ErrRefused):
		h.refuse(w, ofLayer(stethttp.PayloadTooLarge), "The store cannot keep a result of this size: send the status alone.")
	default:
		w.Header().Set("Retry-After", "5")
		h.refuse(w, ofLayer(stethttp.StoreUnavailable), "The store did not answer: send the notice again.")
	}
}

// moved answers where the record is not unknown, or not only.
func (h Webhook) moved(w http.ResponseWriter, r *http.Request, got *stet.Head, n *notice, err error) {
	done := n.resolution.Response != nil
	switch {
	case errors.Is(err, stet.ErrStale), got.State == stet.Running:
		h.refuse(w, ofLayer(stethttp.InProgress), "It is still running: send the notice again later.")
	case got.State == stet.Unknown && done:
		h.refuse(w, published, "Part of an answer has reached a client, and another may not follow: "+
			"send the status alone.")
	case got.State == stet.Unknown:
		h.refuse(w, published, "Part of an answer has reached a client, so that it did happen: send \"completed\".")
	case got.State == stet.Retryable && done:
		h.contradict(w, r, got, n, "The record says that nothing happened, and a retry may run: "+
			"have an operator look at it now.")
	case got.State == stet.Completed && !done:
		h.contradict(w, r, got, n, "The record has a result: have an operator look at it.")
	default:
		known(w)
	}
}

// contradict refuses a notice that says otherwise than the record. One of the two is wrong, and only
// people can find out which: so the record's own side hears of it as well, from the history, the log
// and the metrics.
func (h Webhook) contradict(w http.ResponseWriter, r *http.Request, got *stet.Head, n *notice, detail string) {
	h.tell(got, "contradicted")
	said := n.Outcome
	if n.Status != 0 {
		said += fmt.Sprintf(", with status %d", n.Status)
	}
	// The entry does not name the notice, which is not taken and may be right later. Where it cannot
	// be kept, the event has told of it, and the provider sends the notice again.
	_ = h.Engine.Operator().AuditOf(r.Context(), got, stet.Note{Who: h.who(), Action: ActionContradiction,
		Why: fmt.Sprintf("the provider said %s; the record is %s", said, got.State), Evidence: n.Evidence})
	h.refuse(w, reply.Contradicted, detail)
}

func (h Webhook) who() string { return cmp.Or(h.Who, "webhook") }

func (h Webhook) tell(got *stet.Head, result string) {
	h.Engine.Observe(stet.Event{Kind: stet.Probed, ID: got.ID, Route: got.Route, TraceID: got.TraceID, Attempt: got.Attempt, Result: result})
}

// find returns the record that has all names of the notice, or what is wrong.
func (h Webhook) find(r *http.Request, n *notice) (id stet.ID, why reply.Refusal, problem string) {
	if n.Key != "" { // Resolve compares the others
		return stet.ID{Scope: cmp.Or(stet.Scope(n.Scope), stethttp.DefaultScope), Key: stet.Key(n.Key)}, why, ""
	}
	heads, err := h.Engine.Operator().Find(r.Context(), stet.Scope(n.Scope), cmp.Or(n.DownstreamKey, n.DownstreamID))
	if err != nil {
		return id, ofLayer(stethttp.StoreUnavailable),
			"The store cannot be asked by downstream names at the moment: send the notice again, or name the key."
	}
	more := len(heads) == stet.DefaultLimit // the store may know others
	heads = slices.DeleteFunc(heads, func(h stet.Head) bool { return !n.isCalled(&h) })
	switch {
	case len(heads) == 1 && !more:
		return heads[0].ID, why, ""
	case len(heads) == 0 && !more:
		return id, reply.NotFound, "There is no record with these names."
	}
	return id, ambiguous, "Several records have that name: name the scope and the key."
}

func known(w http.ResponseWriter) {
	reply.JSON(w, http.StatusOK, reply.Document, map[string]string{"result": "known"})
}

// These are the refusals of the webhook alone. A code that the admin API or the layer answers with as
// well has their title (see [reply.NotFound] and ofLayer): both stand on its page.
var (
	ambiguous        = reply.Refusal{Status: 409, Code: "ambiguous", Title: "Several records have this name"}
	attended         = reply.Refusal{Status: 409, Code: "attended", Title: "The handler has not returned"}
	invalidNotice    = reply.Refusal{Status: 400, Code: "invalid-notice", Title: "The notice cannot be used"}
	methodNotAllowed = reply.Refusal{Status: 405, Code: "method-not-allowed", Title: "A notice is sent by POST"}
	published        = reply.Refusal{Status: 409, Code: "published", Title: "Part of an answer has reached a client"}
)

// ofLayer returns the refusal with a code of the layer.
func ofLayer(code stethttp.Code) reply.Refusal {
	p := stethttp.NewProblem(code, "")
	return reply.Refusal{Status: p.Status, Code: string(code), Title: p.Title}
}

// refuse answers with a problem document.
func (h *Webhook) refuse(w http.ResponseWriter, r reply.Refusal, detail string) {
	r.Type, r.Detail = cmp.Or(h.ProblemBase, stethttp.DefaultProblemBase)+r.Code, detail
	reply.Refuse(w, r.Status, r)
}
