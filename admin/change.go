package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/keeper"
)

// maxChange bounds the body of a change, in bytes: a response of the size that is kept by default, as base64, and the rest.
const maxChange = 2 << 20

// changes counts the bytes of changes that are being read. They are operators', who have memory of their own.
var changes = ledger.New(maxChanges, maxChanges/4, 1)

const maxChanges = 16 << 20

var (
	reasonRequired = problem{Status: 400, Code: "reason-required", Title: "A change needs a reason", Detail: "reason: say why, in words; it is kept in the audit trail.", Parameter: "reason"}
	crowded        = problem{Status: 429, Code: "rate-limited", Title: "Too many changes are being read", Detail: "Nothing was changed. Send it again.", Retryable: true}
	noHistory      = problem{Status: 501, Code: "not-supported", Title: "This store keeps no audit trail", Detail: "Changes are in the log of the process that made them."}
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
		case r.Method == http.MethodPost && r.URL.RawQuery != "":
			badParameter("query", "a change has none; send its parameters in the body").write(w)
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

// read reads the body of a change: one JSON object with these members (see [members.Read]). What is wrong with it names the member.
func (h *handler) read(w http.ResponseWriter, r *http.Request, into map[string]any) *problem {
	buf := changes.Buffer(changes.Owner("operators"))
	defer buf.Drop()
	switch err := buf.Fill(r.Body, r.ContentLength, maxChange); {
	case errors.Is(err, ledger.ErrTooLong):
		return badParameter("body", "it is over "+strconv.Itoa(maxChange)+" bytes")
	case errors.Is(err, ledger.ErrNoRoom):
		w.Header().Set("Retry-After", "1")
		return &crowded
	case err != nil:
		return badParameter("body", "it was cut off")
	}
	if bad, ok := errors.AsType[*members.Error](members.Read(buf.Bytes(), into)); ok {
		return badParameter(cmp.Or(bad.Member, "body"), bad.Problem)
	}
	return nil
}

// note is what every change says about itself, and the members of its body that say it.
type note struct {
	reason, evidence string
	ifVersion        version
}

// with returns the members of a change: those of its note, and its own.
func (n *note) with(own map[string]any) map[string]any {
	all := map[string]any{"reason": &n.reason, "evidence": &n.evidence, "if_version": &n.ifVersion}
	maps.Copy(all, own)
	return all
}

// reasoned reports whether somebody said why, in more than spaces.
func (n *note) reasoned() bool { return strings.TrimSpace(n.reason) != "" }

func (n *note) by(who principal) stet.Note {
	return stet.Note{Who: who.name, Why: n.reason, Evidence: n.evidence}
}

// change finds the record that a request names, once its body was read into n, and has act change it. What act returns is the
// record as it is then, also where it was not changed.
func (h *handler) change(w http.ResponseWriter, r *http.Request, who principal, n *note, bad *problem,
	act func(rec *stet.Record) (stet.Head, error)) {
	if bad == nil && !n.reasoned() {
		bad = &reasonRequired
	}
	if bad != nil {
		bad.write(w)
		return
	}
	rec, err := h.named(r, who)
	if err != nil {
		failed(err).write(w)
		return
	}
	head, err := act(&rec)
	if err != nil {
		h.unchanged(&head, err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, h.record(&head))
}

// unchanged says why a record that is there was not changed. head is the record as it is.
func (h *handler) unchanged(head *stet.Head, err error) *problem {
	switch {
	case errors.Is(err, stet.ErrFresh), errors.Is(err, stet.ErrAttended):
		return h.unsettled(head)
	case errors.Is(err, stet.ErrContradicted):
		return &contradicted
	case errors.Is(err, stet.ErrState), errors.Is(err, stet.ErrStale), errors.Is(err, stet.ErrOtherAttempt):
		return stateChanged(head)
	case errors.Is(err, errLonger):
		return &keptLonger
	case errors.Is(err, keeper.ErrNoAnswer):
		return unanswered(err)
	}
	return failed(err)
}

// stateChanged says what the record is instead, as far as is known.
func stateChanged(head *stet.Head) *problem {
	p := &problem{Status: 409, Code: "state-changed", Title: "The record's state does not allow this", Detail: "It is in another state, or was changed meanwhile. Look at it again."}
	if head.State != 0 {
		p.Detail = fmt.Sprintf("It is %s, at version %d: it was changed meanwhile, or this is not done to what is %[1]s. Look at it again.", head.State, head.Version)
	}
	return p
}

// purge answers DELETE. Its parameters are in the query: not everybody lets a DELETE have a body.
func (h *handler) purge(w http.ResponseWriter, r *http.Request, who principal) {
	var n note
	bad := n.fromQuery(r.URL)
	if bad == nil && !n.reasoned() {
		bad = &reasonRequired
	}
	if bad != nil {
		bad.write(w)
		return
	}
	rec, err := h.named(r, who)
	if err != nil {
		failed(err).write(w)
		return
	}
	if err := h.engine.Operator().Purge(r.Context(), rec.ID, stet.Version(n.ifVersion), n.by(who)); err != nil {
		h.unchanged(&rec.Head, err).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// fromQuery reads reason and if_version. Another parameter is refused: a mistyped condition would be none.
func (n *note) fromQuery(u *url.URL) *problem {
	return parameters(u, func(name, v string) *problem {
		switch name {
		case "reason":
			n.reason = v
		case "if_version":
			if err := n.ifVersion.parse(v); err != nil {
				return badParameter(name, err.Error())
			}
		default:
			return badParameter(name, "there is no such parameter: reason, if_version")
		}
		return nil
	})
}

// failed says why the store could not do what was asked.
func failed(err error) *problem {
	switch {
	case errors.Is(err, stet.ErrNotFound):
		return &notFound
	case errors.Is(err, stet.ErrCorrupt):
		return &unreadable
	case errors.Is(err, stet.ErrUnsupported):
		return &unlisted
	}
	return &unavailable
}
