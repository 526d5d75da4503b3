package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stet-dev/stet/internal/tag"
	"github.com/stet-dev/stet/operate"
)

// named is the record that a command is about.
type named struct {
	Key   string `arg:"" help:"The key, without quotes, or the record's id (k_…)."`
	Scope string `placeholder:"SCOPE" help:"Scope of the key (default); an id needs none."`
}

// name is the record's for the API: an id is enough, and a key is in the scope default where no
// other is given.
func (n *named) name() operate.Name {
	if n.byID() {
		return operate.Name{Key: n.Key}
	}
	return operate.Name{Scope: cmp.Or(n.Scope, "default"), Key: n.Key}
}

// byID reports whether the record is named by its id alone.
func (n *named) byID() bool { return n.Scope == "" && isID(n.Key) }

func isID(name string) bool {
	_, ok := tag.Parse(name)
	return ok
}

// missing says what else the record may be called, where err is that there is none.
func (n *named) missing(err error) error {
	switch {
	case n.byID():
		return absent(err, exitNotFound,
			"no record has the id %s: it was removed when its time was over, or the id was made with another pepper; "+
				"stet audit list --id %[1]s shows what was done to it, stet keys list what there is; a key of that form needs --scope", n.Key)
	case strings.HasPrefix(n.Key, `"`):
		return absent(err, exitNotFound, "%s; a quoted key is named without its quotes", noSuchRecord)
	}
	return err
}

// pinned is a change that was decided on what a record was.
type pinned struct {
	IfVersion string `placeholder:"VERSION" help:"Change the record only if it still has this version, as --json shows it."`
	IfBasis   string `placeholder:"BASIS" help:"Change the record only if it still has this basis, as --json shows it; a probe does not change it."`
}

// check implements [checked].
func (p *pinned) check(*world) error {
	return refuse(p.IfBasis != "" && !isBasis(p.IfBasis),
		"--if-basis: %q is no basis; it has 16 hex digits, as stet keys show --json shows it", p.IfBasis)
}

func (p *pinned) condition() operate.Condition {
	return operate.Condition{Version: operate.Version(p.IfVersion), Basis: operate.Basis(p.IfBasis)}
}

func isBasis(text string) bool { return isID("k_" + text) }

// recordChange is the change of one record.
type recordChange struct {
	*change
	record  *named
	at      pinned
	what    string // is about to happen, for the question
	warning string // is said before it
}

// do asks for confirmation, unless --yes was given, and acts. The question shows the record, and
// the change applies only to what was shown.
func (o *recordChange) do(w *world, a *api, act func(record operate.Name, c operate.Change) error) error {
	if !o.Yes {
		found, err := a.Record(w.ctx, o.record.name())
		if err != nil {
			return o.record.missing(err)
		}
		r := record(found)
		if err := r.brief(w); err != nil {
			return err
		}
		if o.warning != "" {
			fmt.Fprintln(w.stderr, o.warning)
		}
		if err := o.sure(w, o.what); err != nil {
			return err
		}
		o.at.IfBasis = cmp.Or(o.at.IfBasis, r.Basis)
	}
	c := operate.Change{Reason: o.Reason, Condition: o.at.condition()}
	if err := act(o.record.name(), c); err != nil {
		return o.record.missing(err)
	}
	return o.done(w, 1)
}

// underWay is what speaks against a release, however long ago its attempt was.
const underWay = "An attempt that is still running leaves no trace yet: release it only if it can no longer have an effect."

// brief prints what an operator needs to decide about a record.
func (r *record) brief(w *world) error {
	lines := []string{"id", r.ID, "scope", r.Scope, "state", r.State, "cause", r.Cause,
		"attempt", number(r.Attempt), "status", number(r.Status), "created", w.when(r.CreatedAt),
		"dead letter", ifTrue(r.Escalated, deadLetter)}
	return pairs(w.stderr, append(lines, r.around(w)...)...)
}

// around is what is known beside the record itself, and what follows from it in the API's sentences.
func (r *record) around(w *world) []string {
	lines := []string{"unknown since", w.when(r.UnknownSince)}
	for _, p := range r.Points {
		lines = append(lines, "came to "+visible(p.Name), w.when(p.At))
	}
	if m := r.Mismatch; m != nil {
		lines = append(lines, "mismatch in", strings.Join(m.Parts, ", "))
	}
	if x := r.Explanation; x != nil { // a gateway of another version may have none
		lines = append(lines, block("known", x.Known)...)
		lines = append(lines, block("not known", x.Open)...)
		lines = append(lines, block("a client", x.Client)...)
		lines = append(lines, block("if nothing is done", x.Next)...)
	}
	if r.Outlook != nil {
		lines = append(lines, "may be released", released(r.Outlook.Release))
	}
	return lines
}

// block are sentences below each other, the first beside its name.
func block(name string, sentences []string) (lines []string) {
	for _, s := range sentences {
		lines, name = append(lines, name, s), ""
	}
	return lines
}

// released says whether a record may be released, by whom, and why.
func released(r *operate.Release) string {
	switch {
	case r == nil:
		return ""
	case r.May:
		return "yes: " + r.Why
	}
	return "no: " + r.Why + ifTrue(r.Role != "" && r.With != "", fmt.Sprintf(" The role %s may now, with --%s.", r.Role, r.With))
}
