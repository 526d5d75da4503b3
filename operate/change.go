package operate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/reconcile"
)

// Condition is what a change was decided on: it is made only while that holds. The zero value holds
// always.
type Condition struct {
	Version Version `json:"if_version,omitzero"` // the record has this version
	Basis   Basis   `json:"if_basis,omitzero"`   // and this [Record].Basis, which no probe changes
}

// Version is the version of a record or of a message, in digits. In JSON it is a string: a double
// does not hold 63 bits, and what rounds it (JavaScript, jq) would be told ever after that the
// record has changed. A number is taken, too.
type Version string

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Version) UnmarshalJSON(text []byte) error { return v.UnmarshalText(bytes.Trim(text, `"`)) }

// UnmarshalText implements [encoding.TextUnmarshaler]. It refuses the empty text, which would be no
// condition.
func (v *Version) UnmarshalText(text []byte) error {
	if *v = Version(text); *v == "" {
		return errVersion
	}
	_, err := v.number()
	return err
}

// Basis is a [Record].Basis.
type Basis string

// UnmarshalText implements [encoding.TextUnmarshaler]. It refuses the empty text, which would be no
// condition.
func (b *Basis) UnmarshalText(text []byte) error {
	*b = Basis(text)
	return b.check()
}

func (b Basis) check() error {
	if !isTag("k_" + string(b)) {
		return errors.New("it is the basis of the record as it was shown: 16 hex digits")
	}
	return nil
}

var errVersion = errors.New("it is the version of the record as it was shown: a string of digits")

// number is the version; "" is 0, which no record has.
func (v Version) number() (stet.Version, error) {
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(v), 10, 63)
	if err != nil || n == 0 || v[0] == '+' {
		return 0, errVersion
	}
	return stet.Version(n), nil
}

func (c *Condition) check() error {
	if _, err := c.Version.number(); err != nil {
		return BadParameter("if_version", err.Error())
	}
	if c.Basis == "" {
		return nil
	}
	if err := c.Basis.check(); err != nil {
		return BadParameter("if_basis", err.Error())
	}
	return nil
}

// holds reports whether the record is the one that the change was decided on.
func (c *Condition) holds(head *stet.Head) bool {
	v, _ := c.Version.number()
	return (v == 0 || v == head.Version) && (c.Basis == "" || string(c.Basis) == head.Basis())
}

// Change is what a change says of itself.
type Change struct {
	Condition
	Reason   string `json:"reason"` // kept in the audit trail
	Evidence string `json:"evidence,omitzero"`
}

var reasonRequired = &Problem{Status: 400, Code: "reason-required", Title: "A change needs a reason", Detail: "reason: say why, in words; it is kept in the audit trail.", Parameter: "reason"}

func (c *Change) check() error {
	if err := c.Condition.check(); err != nil {
		return err
	}
	if strings.TrimSpace(c.Reason) == "" {
		return reasonRequired
	}
	return nil
}

// by is the entry that a change leaves in the audit trail.
func (d *Desk) by(c *Change) stet.Note {
	return stet.Note{Who: d.caller.Name, Why: c.Reason, Evidence: c.Evidence, Notice: d.notice}
}

// passes is how often a record is read that was written meanwhile, such as by a probe, which is no
// other decision.
const passes = 3

// change has act change the record of a name. wrong is what is wrong with what was sent, which is
// said before anything is read. What act returns is the record as it is then, also where it was not
// changed.
func (d *Desk) change(ctx context.Context, n Name, c *Change, wrong error, act func(rec *stet.Record) (stet.Head, error)) (doc Record, err error) {
	if err := cmp.Or(d.caller.Takes(Operator), wrong, c.check()); err != nil {
		return doc, err
	}
	var head stet.Head
	for range passes {
		rec, err := d.readToChange(ctx, n, &c.Condition)
		if err != nil {
			return doc, err
		}
		if head, err = act(&rec); err == nil {
			return d.explained(ctx, &head), nil
		} else if !errors.Is(err, stet.ErrStale) {
			return doc, d.unchanged(&head, err)
		}
	}
	return doc, stateChanged(&head)
}

// readToChange reads a record that is to be changed while a condition holds. Stet's own records are
// there to be read alone: who could end a job's would end what another role has started.
func (d *Desk) readToChange(ctx context.Context, n Name, c *Condition) (stet.Record, error) {
	rec, err := d.read(ctx, n)
	switch {
	case rec.Scope == stet.OwnScope:
		return rec, stet.ErrNotFound
	case err == nil && !c.holds(&rec.Head):
		return rec, stateChanged(&rec.Head)
	}
	return rec, err
}

// unchanged says why a record that is there was not changed. head is the record as it is.
func (s *service) unchanged(head *stet.Head, err error) error {
	switch {
	case errors.Is(err, stet.ErrNotSettled), errors.Is(err, stet.ErrAttended):
		return s.unsettled(head)
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
	p := refusal(reply.StateChanged, "It is in another state, or was changed meanwhile. Look at it again.")
	if head.State != 0 {
		p.Detail = fmt.Sprintf("It is %s, at version %d: it was changed meanwhile, or this is not done to what is %[1]s. Look at it again.", head.State, head.Version)
	}
	return p
}

// Delete drops a stored result, so that the key can be used again. It takes an admin.
func (d *Desk) Delete(ctx context.Context, n Name, c Change) error {
	_, err := d.change(ctx, n, &c, d.caller.Takes(Admin), func(rec *stet.Record) (stet.Head, error) {
		at := rec.Version
		if c.Condition == (Condition{}) { // a cache may have read it, whose version is of before
			at = 0
		}
		return rec.Head, d.engine.Operator().Purge(ctx, rec.ID, at, d.by(&c))
	})
	return err
}

// Extension is for how long a result is kept.
type Extension struct {
	Change
	Seconds float64 `json:"seconds"` // from now, at least 1
}

// Extend keeps a result for so many seconds from now. It takes an operator.
func (d *Desk) Extend(ctx context.Context, n Name, x Extension) (Record, error) {
	retain, wrong := retention(x.Seconds), error(nil)
	if retain < time.Second {
		wrong = BadParameter("seconds", "it is for how long from now the result is kept, at least 1")
	}
	return d.change(ctx, n, &x.Change, wrong, func(rec *stet.Record) (stet.Head, error) {
		return d.engine.Operator().Extend(ctx, rec.ID, rec.Version, retain, d.by(&x.Change))
	})
}

// maxSeconds is a hundred years: longer than any result is of use, and within every store's
// calendar.
const maxSeconds = 100 * 365 * 24 * 3600

func retention(seconds float64) time.Duration {
	return time.Duration(min(seconds, maxSeconds) * float64(time.Second))
}

var keptLonger = &Problem{Status: 409, Code: "state-changed", Title: "The result is kept for longer already", Detail: "Nothing was changed: extend only lengthens. To end it earlier, delete it."}

// Remark is an entry of the audit trail about a record.
type Remark struct {
	Condition
	Reason   string `json:"reason,omitzero"`
	Text     string `json:"text,omitzero"` // in place of the reason
	Evidence string `json:"evidence,omitzero"`
}

// Note adds an entry about a record to the audit trail, which changes nothing else. It takes an
// operator.
func (d *Desk) Note(ctx context.Context, n Name, r Remark) (Record, error) {
	var wrong error
	if r.Text != "" && r.Reason != "" {
		wrong = BadParameter("text", "text and reason are the same; send one")
	}
	c := Change{r.Condition, cmp.Or(r.Reason, r.Text), r.Evidence}
	return d.change(ctx, n, &c, wrong, func(rec *stet.Record) (stet.Head, error) {
		entry := d.by(&c)
		entry.Action = actionNote
		err := d.engine.Operator().Audit(ctx, rec.ID, entry)
		if errors.Is(err, stet.ErrUnsupported) {
			err = noHistory
		}
		return rec.Head, err
	})
}

// Question asks what became of an unknown record.
type Question struct {
	Condition
	Reason string `json:"reason,omitzero"`
}

// Probed is what a question found out, beside the record as it is then.
type Probed struct {
	Record
	Probe Finding `json:"probe"`
}

// Finding is what a question found out.
type Finding struct {
	Found    string    `json:"found"` // pending, happened, missing, voided or goes-on
	Evidence string    `json:"evidence,omitzero"`
	Settles  time.Time `json:"settles_at,omitzero"` // with missing: when that begins to be a proof
}

var noProbe = &Problem{Status: 409, Code: "no-probe", Title: "There is nothing to ask",
	Detail: "No probe is configured: set reconcile.probe.url to where the upstream says what it has done; or find out by hand, and resolve it."}

// Probe asks now what became of an unknown record. The question is in the audit trail, whatever came
// of it. It takes an operator.
func (d *Desk) Probe(ctx context.Context, n Name, q Question) (doc Probed, err error) {
	asks := d.conf.Reconciler
	switch err := cmp.Or(d.caller.Takes(Operator), q.check()); {
	case err != nil:
		return doc, err
	case q.Reason != "" && strings.TrimSpace(q.Reason) == "":
		return doc, reasonRequired
	case asks == nil:
		return doc, noProbe
	}
	rec, err := d.readToChange(ctx, n, &q.Condition)
	if err != nil {
		return doc, err
	}
	a, err := asks.Ask(ctx, &rec.Head, stet.Note{Who: d.caller.Name, Why: q.Reason, Notice: d.notice})
	if err != nil {
		return doc, d.unchanged(&a.Head, err)
	}
	doc = Probed{d.explained(ctx, &a.Head), Finding{Found: a.Finding.Effect.String(), Evidence: a.Finding.Evidence}}
	if !a.Ended && a.Finding.Effect == reconcile.Missing {
		doc.Probe.Settles = asks.Plan().Outlook(&a.Head).SettledAt.UTC()
	}
	return doc, nil
}

// What is said about who looks at a record is stored with it: maxName and maxRemark bound it, in
// bytes.
const (
	maxName   = 100
	maxRemark = stet.MaxRemark
)

// Snoozing is for how long, or until when, a record does not call for people.
type Snoozing struct {
	Condition
	For    *float64  `json:"for_s,omitzero"` // 0 wakes
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitzero"` // which waking needs not
}

// Snooze keeps an unknown record from calling for people for a while. It takes an operator.
func (d *Desk) Snooze(ctx context.Context, n Name, s Snoozing) (Record, error) {
	var wrong error
	switch {
	case (s.For == nil) == s.Until.IsZero():
		wrong = BadParameter("for_s", "say for how many seconds, or send until with an instant; 0 seconds wake it")
	case s.For != nil && !(*s.For >= 0 && *s.For <= stet.MaxSnooze.Seconds()):
		wrong = BadParameter("for_s", "it is a number of seconds, up to "+strconv.Itoa(int(stet.MaxSnooze.Seconds())))
	case s.For != nil && *s.For == 0:
		s.Reason = cmp.Or(s.Reason, "woken")
	}
	c := Change{Condition: s.Condition, Reason: s.Reason}
	return d.change(ctx, n, &c, cmp.Or(wrong, remark("reason", s.Reason, maxRemark)), func(rec *stet.Record) (stet.Head, error) {
		var quiet time.Duration
		if s.For != nil {
			quiet = time.Duration(*s.For * float64(time.Second))
		} else if quiet = s.Until.Sub(rec.AsOf); quiet <= 0 || quiet > stet.MaxSnooze {
			return rec.Head, BadParameter("until", "it is an instant ahead, at most "+strconv.Itoa(int(stet.MaxSnooze.Hours()))+" hours from now")
		}
		return d.engine.Operator().Snooze(ctx, rec.ID, rec.Version, quiet, d.by(&c))
	})
}

// Handing is whom a record is handed to.
type Handing struct {
	Condition
	To   string `json:"to"`
	Note string `json:"note,omitzero"`
}

// Hand hands a record to a person. It takes an operator.
func (d *Desk) Hand(ctx context.Context, n Name, to Handing) (Record, error) {
	var wrong error
	if to.To = strings.TrimSpace(to.To); to.To == "" {
		wrong = BadParameter("to", "say who looks after it now")
	}
	c := Change{Condition: to.Condition, Reason: to.Note}
	if strings.TrimSpace(c.Reason) == "" {
		c.Reason = "handed to " + to.To
	}
	wrong = cmp.Or(wrong, remark("to", to.To, maxName), remark("note", to.Note, maxRemark))
	return d.change(ctx, n, &c, wrong, func(rec *stet.Record) (stet.Head, error) {
		return d.engine.Operator().Hand(ctx, rec.ID, rec.Version, to.To, d.by(&c))
	})
}

// remark says what is wrong with a text that is stored with a record.
func remark(name, text string, most int) error {
	switch {
	case len(text) > most:
		return BadParameter(name, "it is over "+strconv.Itoa(most)+" bytes")
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return BadParameter(name, "it has a control character in it")
	}
	return nil
}
