package stethttp

import (
	"cmp"
	"fmt"

	"github.com/stet-dev/stet"
)

// unstorable is the answer to a request of which the store can never keep a record: to send it
// again would not help, and without a record it does not run.
func (x *exchange) unstorable() *Problem {
	var most stet.Sizes
	if s, ok := stet.As[stet.Sizer](x.g.engine.Store()); ok {
		most = s.Sizes()
	}
	key, scope := len(x.id.Key), len(x.id.Scope)
	switch {
	case over(key, most.Key), over(key+scope, most.Names) && !over(scope, most.Names/2):
		p := x.problem(InvalidKey)
		p.Detail = fmt.Sprintf("The Idempotency-Key has %d bytes, which is longer than can be stored (%d).", key,
			cmp.Or(most.Key, most.Names-scope))
		p.Status = cmp.Or(x.g.cfg.Status.InvalidKey, p.Status)
		return p
	case over(scope, most.Scope), over(key+scope, most.Names):
		p := x.problem(Unauthenticated)
		p.Detail = fmt.Sprintf("The request says whose it is in %d bytes, which is longer than can be stored (%d).", scope,
			cmp.Or(most.Scope, most.Names-key))
		return p
	}
	p := x.problem(PayloadTooLarge)
	p.Detail = "What has to be kept of this request is more than can be stored. Nothing was run."
	return p
}

func over(n, most int) bool { return most > 0 && n > most }
