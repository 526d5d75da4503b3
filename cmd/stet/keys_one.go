package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// named is the record that a command is about.
type named struct {
	Key   string `arg:"" help:"The key, without quotes, or the record's id (k_…)."`
	Scope string `placeholder:"SCOPE" help:"Scope of the key (default); an id needs none."`
}

// path is the record's in the API: an id is enough, and a key is in the scope default where no
// other is given.
func (n *named) path() string {
	if n.byID() {
		return "/api/v1/keys/" + segment(n.Key)
	}
	return "/api/v1/keys/" + segment(cmp.Or(n.Scope, "default")) + "/" + segment(n.Key)
}

// byID reports whether the record is named by its id alone.
func (n *named) byID() bool { return n.Scope == "" && isID(n.Key) }

func isID(name string) bool {
	digits, ok := strings.CutPrefix(name, "k_")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// missing says what else the record may be called, where err is that there is none.
func (n *named) missing(err error) error {
	switch {
	case exitOf(err) != exitNotFound:
		return err
	case n.byID():
		return failf(exitNotFound, "no record has the id %s: it was removed when its time was over, or the id was made with another pepper; "+
			"stet audit list --id %[1]s shows what was done to it, stet keys list what there is; a key of that form needs --scope", n.Key)
	case strings.HasPrefix(n.Key, `"`):
		return failf(exitNotFound, "%w; a quoted key is named without its quotes", err)
	}
	return err
}

// pinned is a change that was decided on one version of a record.
type pinned struct {
	IfVersion string `placeholder:"VERSION" help:"Change the record only if it still has this version, as --json shows it."`
}

// one is the change of one record.
type one struct {
	*change
	record  *named
	what    string // is about to happen, for the question
	warning string // is said before it
}

// do asks for confirmation, unless --yes was given, and acts. The question shows the record, and
// the change applies only to the version that was shown.
func (o *one) do(w *world, a *api, version string, act func(version string) error) error {
	if !o.Yes {
		var r record
		if err := a.get(w.ctx, o.record.path(), &r); err != nil {
			return o.record.missing(err)
		}
		if err := r.brief(w); err != nil {
			return err
		}
		if o.warning != "" {
			fmt.Fprintln(w.stderr, o.warning)
		}
		if err := o.sure(w, o.what); err != nil {
			return err
		}
		version = cmp.Or(version, r.version())
	}
	if err := act(version); err != nil {
		return o.record.missing(err)
	}
	return o.done(w, 1)
}

// underWay is what speaks against a release, however long ago its attempt was.
const underWay = "An attempt that is still running leaves no trace yet: release it only if it can no longer have an effect."

func (r *record) version() string { return strconv.FormatUint(r.Version, 10) }

// brief prints what an operator needs to decide about a record. Ages are by this machine's clock.
func (r *record) brief(w *world) error {
	return pairs(w.stderr, "id", r.ID, "scope", visible(r.Scope), "state", r.State, "cause", r.Cause, "attempt", number(r.Attempt),
		"status", number(r.Status), "age", age(r.CreatedAt), "attempt ended", r.ended(), "last probe", r.lastProbe(), "dead letter", r.deadLetter())
}

func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return max(0, time.Since(t)).Truncate(time.Second).String()
}

// ended says when the last attempt of an unknown record ended, as far as is known.
func (r *record) ended() string {
	if r.State != "unknown" {
		return ""
	}
	end := r.CreatedAt.Add(time.Duration(r.TookMS * float64(time.Millisecond)))
	if time.Until(end) > 0 {
		return "not yet: its handler has not returned"
	}
	return age(end) + " ago"
}

// lastProbe says what is known of it: a record has when it was written last, and by whom only in
// its history.
func (r *record) lastProbe() string {
	switch {
	case r.State != "unknown":
		return ""
	case r.Probes == 0:
		return "none"
	}
	return fmt.Sprintf("of %d, by %s, found nothing out", r.Probes, instant(r.UpdatedAt))
}
