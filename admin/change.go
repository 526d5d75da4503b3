package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/reconcile"
)

// maxChange bounds the body of a change, in bytes: a response of the size that is kept by default,
// as base64, and the rest.
const maxChange = 2 << 20

// changes counts the bytes of changes that are being read. They are operators', who have memory of
// their own.
var changes = ledger.New(maxChanges, maxChanges/4, 1)

const maxChanges = 16 << 20

var (
	reasonRequired = &Problem{Status: 400, Code: "reason-required", Title: "A change needs a reason", Detail: "reason: say why, in words; it is kept in the audit trail.", Parameter: "reason"}
	crowded        = &Problem{Status: 429, Code: "rate-limited", Title: "Too many changes are being read", Detail: "Nothing was changed. Send it again.", Retryable: true}
	showing        = &Problem{Status: 429, Code: "rate-limited", Title: "Too many stored answers are being shown", Detail: "Nothing was changed. Send it again.", Retryable: true}
	noHistory      = &Problem{Status: 501, Code: "not-supported", Title: "This store keeps no audit trail", Detail: "Changes are in the log of the process that made them."}
)

// read reads the body of a change: one JSON object with these members (see [members.Read]). What is
// wrong with it names the member.
func (h *handler) read(c *call, into map[string]any) error {
	buf := changes.Buffer(changes.Owner("operators"))
	defer buf.Drop()
	switch err := buf.Fill(c.Body, c.ContentLength, maxChange); {
	case errors.Is(err, ledger.ErrTooLong):
		return badParameter("body", "it is over "+strconv.Itoa(maxChange)+" bytes")
	case errors.Is(err, ledger.ErrNoRoom):
		c.header.Set("Retry-After", "1")
		return crowded
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
	// What the change was decided on; zero: on whatever there is.
	ifVersion stet.Version
	ifBasis   string
}

// with returns the members of a change: those of its note, and its own.
func (n *note) with(own map[string]any) map[string]any {
	all := n.pinned(own)
	all["reason"], all["evidence"] = &n.reason, &n.evidence
	return all
}

// pinned returns a change's own members, and those that say what it was decided on.
func (n *note) pinned(own map[string]any) map[string]any {
	all := map[string]any{"if_version": pin(n.pinVersion), "if_basis": pin(n.pinBasis)}
	maps.Copy(all, own)
	return all
}

// stale reports whether the change was decided on another record than this.
func (n *note) stale(head *stet.Head) bool {
	return n.ifVersion != 0 && n.ifVersion != head.Version || n.ifBasis != "" && n.ifBasis != head.Basis()
}

// unreasoned is the problem of a change whose reason is missing or blank.
func (n *note) unreasoned() error {
	if strings.TrimSpace(n.reason) == "" {
		return reasonRequired
	}
	return nil
}

func (n *note) by(who principal) stet.Note {
	return stet.Note{Who: who.name, Why: n.reason, Evidence: n.evidence}
}

// passes is how often a record is read that was written meanwhile, such as by a probe, which is no
// other decision.
const passes = 3

// change finds the record that a call names, once its body was read into n, and has act change it.
// What act returns is the record as it is then, also where it was not changed.
func (h *handler) change(c *call, n *note, err error, act func(rec *stet.Record) (stet.Head, error)) (any, error) {
	if err = cmp.Or(err, n.unreasoned()); err != nil {
		return nil, err
	}
	var head stet.Head
	for range passes {
		rec, err := h.named(c)
		switch {
		case err != nil:
			return nil, err
		case n.stale(&rec.Head):
			return nil, stateChanged(&rec.Head)
		}
		if head, err = act(&rec); err == nil {
			return h.detailed(c.Context(), &head), nil
		} else if !errors.Is(err, stet.ErrStale) {
			return nil, h.unchanged(&head, err)
		}
	}
	return nil, stateChanged(&head)
}

// unchanged says why a record that is there was not changed. head is the record as it is.
func (h *handler) unchanged(head *stet.Head, err error) error {
	switch {
	case errors.Is(err, stet.ErrNotSettled), errors.Is(err, stet.ErrAttended):
		return h.unsettled(head)
	case errors.Is(err, stet.ErrState), errors.Is(err, stet.ErrStale), errors.Is(err, stet.ErrOtherRun):
		return stateChanged(head)
	case errors.Is(err, reconcile.ErrNoAnswer):
		return &Problem{Status: 502, Code: "probe-failed", Title: "The probe got no answer", Retryable: true,
			Detail: fmt.Sprintf("It is still unknown: %s. See that reconcile.probe.url answers, and ask again.", err)}
	}
	return err
}

// stateChanged says what the record is instead, as far as is known.
func stateChanged(head *stet.Head) error {
	p := &Problem{Status: 409, Code: "state-changed", Title: "The record's state does not allow this", Detail: "It is in another state, or was changed meanwhile. Look at it again."}
	if head.State != 0 {
		p.Detail = fmt.Sprintf("It is %s, at version %d: it was changed meanwhile, or this is not done to what is %[1]s. Look at it again.", head.State, head.Version)
	}
	return p
}

// purge answers DELETE. Its parameters are in the query: some clients and proxies allow no body in
// a DELETE.
func (h *handler) purge(c *call) (any, error) {
	var n note
	asked := parameters{{"reason", verbatim(&n.reason)},
		{"if_version", n.pinVersion}, {"if_basis", n.pinBasis}}
	_, err := h.change(c, &n, asked.read(c.URL), func(rec *stet.Record) (stet.Head, error) {
		at := rec.Version
		if n.ifVersion == 0 && n.ifBasis == "" { // a cache may have read it, whose version is of before
			at = 0
		}
		return rec.Head, h.engine.Operator().Purge(c.Context(), rec.ID, at, n.by(c.who))
	})
	return nil, err
}

// pin is a member of a change that says what it was decided on: a text, for which a number is
// taken, too.
type pin func(text string) error

// UnmarshalJSON implements [json.Unmarshaler].
func (p pin) UnmarshalJSON(text []byte) error { return p(strings.Trim(string(text), `"`)) }

// pinVersion takes an if_version. In JSON it is a string: a double does not hold 63 bits, and what
// rounds it (JavaScript, jq) would be told ever after that the record has changed.
func (n *note) pinVersion(text string) error {
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil || v == 0 || text[0] == '+' {
		return errors.New("it is the version of the record as it was shown: a string of digits")
	}
	n.ifVersion = stet.Version(v)
	return nil
}

// pinBasis takes an if_basis.
func (n *note) pinBasis(text string) error {
	if n.ifBasis = text; !isTag("k_" + text) {
		return errors.New("it is the basis of the record as it was shown: 16 hex digits")
	}
	return nil
}
