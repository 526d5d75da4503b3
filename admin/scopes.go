package admin

import (
	"slices"
	"strings"

	"github.com/stet-dev/stet"
)

// allows reports whether what is in the scope exists for p. What belongs to no scope, such as a
// refused login, has the empty one.
func (p principal) allows(s stet.Scope) bool {
	return !p.bound() || slices.ContainsFunc(p.scopes, func(bound string) bool {
		if prefix, more := strings.CutSuffix(bound, "*"); more {
			return strings.HasPrefix(string(s), prefix) && s != ""
		}
		return bound == string(s)
	})
}

// bound reports whether p may see some scopes only.
func (p principal) bound() bool { return len(p.scopes) > 0 }

// only is the one scope that p may see, if it is known by name: a list is then asked for it alone,
// and needs no filter.
func (p principal) only() (stet.Scope, bool) {
	if len(p.scopes) != 1 || strings.HasSuffix(p.scopes[0], "*") {
		return "", false
	}
	return stet.Scope(p.scopes[0]), true
}

// within fills in the one scope that p may see where a list names none. Where it names one that is
// out of reach it says so: an empty list would read as if nothing were wrong there. It says the
// same whether there is such a scope or not.
func (p principal) within(scope *stet.Scope) error {
	if s, ok := p.only(); ok && *scope == "" {
		*scope = s
	}
	if *scope != "" && !p.allows(*scope) {
		return forbidden(p.name + " is bound to other scopes: name one of those, or none.")
	}
	return nil
}

// maxLooks is how many pages of the store one page of a list is put together from, at most, for a
// token that is bound to scopes. It may then be short.
const maxLooks = 1000

// rows is a page of a list as who asks sees it: of up to limit rows that are selected, which those
// in other scopes are not, as if there were none of these, which how full a page is would tell as
// well. page returns rows of the store, at most n of them after a cursor. It is asked looks times at
// most, or maxLooks times. The store's cursors may hold a key: who may not see keys, or not
// everybody's, gets them sealed.
func rows[T any](h *handler, who principal, after string, limit, looks int, selects func(*T) bool,
	page func(after string, n int) ([]T, string, error)) (found []T, next string, err error) {
	sealed := who.bound() || who.role < Operator
	if sealed && after != "" {
		var ok bool
		if after, ok = h.cursors.Open(after, who.name); !ok {
			return nil, "", badParameter("cursor", "it is not for this token, or from before the gateway started; start without one")
		}
	}
	if who.bound() {
		looks = maxLooks
	}
	for range looks {
		var got []T
		if got, next, err = page(after, limit-len(found)); err != nil {
			return nil, "", err
		}
		found = append(found, slices.DeleteFunc(got, func(row T) bool { return !selects(&row) })...)
		if after = next; next == "" || len(found) >= limit {
			break
		}
	}
	if sealed && next != "" {
		next = h.cursors.Seal(next, who.name)
	}
	return found, next, nil
}
