package operate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/names"
)

// Role says what a caller may do. Each includes the ones before it.
type Role uint8

const (
	Viewer   Role = iota // see records, metrics and the policy
	Operator             // see keys and responses too, and settle outcomes
	Admin                // everything
)

var roleNames = [...]string{Viewer: "viewer", Operator: "operator", Admin: "admin"}

func (r Role) String() string { return names.Of("Role", roleNames[:], r) }

// UnmarshalText accepts viewer, operator and admin.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("operate: %q is no role: viewer, operator or admin", text)
	}
	*r = Role(i)
	return nil
}

// Caller is an operator, or a program of theirs.
type Caller struct {
	Name string // in the log and the audit trail
	Role Role
	// Scopes are those that the caller is bound to: each is a scope, or the beginning of scopes with
	// * after it. What is in another one does not exist for the caller. Without any, the caller is
	// bound to none.
	Scopes []string
}

// Bound reports whether the caller may see some scopes only.
func (c Caller) Bound() bool { return len(c.Scopes) > 0 }

// Allows reports whether what is in the scope exists for the caller. What belongs to no scope, such
// as a refused login, has the empty one.
func (c Caller) Allows(s stet.Scope) bool {
	return !c.Bound() || slices.ContainsFunc(c.Scopes, func(bound string) bool {
		if prefix, more := strings.CutSuffix(bound, "*"); more {
			return strings.HasPrefix(string(s), prefix) && s != ""
		}
		return bound == string(s)
	})
}

// Takes returns the problem of a caller whose role is below the one that is needed.
func (c Caller) Takes(needed Role) error {
	if c.Role >= needed {
		return nil
	}
	return Forbidden("This takes the role " + needed.String() + "; " + c.Name + " has the role " + c.Role.String() + ".")
}

// only fills in the one scope that the caller may see, if it is known by name, where a list names
// none: the store is then asked for that alone, and needs no filter.
func (c Caller) only(scope *stet.Scope) {
	if *scope == "" && len(c.Scopes) == 1 && !strings.HasSuffix(c.Scopes[0], "*") {
		*scope = stet.Scope(c.Scopes[0])
	}
}

// within fills in the one scope that the caller may see where a list names none. Where it names one
// that is out of reach it says so: an empty list would read as if nothing were wrong there. It says
// the same whether there is such a scope or not.
func (c Caller) within(scope *stet.Scope) error {
	if c.only(scope); *scope != "" && !c.Allows(*scope) {
		return Forbidden(c.Name + " is bound to other scopes: name one of those, or none.")
	}
	return nil
}

// unbound refuses callers of some scopes what is about all of them: for them it does not exist.
func (c Caller) unbound() error {
	if c.Bound() {
		return notFound
	}
	return nil
}
