package stethttp

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/ledger"
)

// serve checks the request in the published order. The first check that fails answers, and nothing
// is stored before all of them have passed (I7).
func (x *exchange) serve(lines []string) {
	c := &x.g.cfg
	scope, err := x.g.scope(x.r)
	if err != nil || scope == "" || scope == stet.OwnScope { // OwnScope holds Stet's own records
		p := x.problem(Unauthenticated)
		if missing, ok := errors.AsType[*NoIdentity](err); ok {
			p.challenge, p.Detail = missing.Challenge, cmp.Or(missing.Detail, p.Detail)
		}
		x.unauthenticated(p)
		return
	}
	if most := c.Limits.cfg.Load().MaxScopeBytes; len(scope) > most { // it is stored with every record
		p := x.problem(Unauthenticated)
		p.Detail = "The request says whose it is in more than " + strconv.Itoa(most) + " bytes. Nothing was looked up."
		x.unauthenticated(p)
		return
	}
	if len(lines) == 0 {
		x.refuse(MissingKey)
		return
	}
	key, err := c.Key.Parse(lines)
	if err != nil {
		x.invalidKey(err)
		return
	}
	x.id, x.weak = stet.ID{Scope: scope, Key: key}, key.Weak()
	x.owner = c.Limits.memory.Owner(string(scope))
	switch {
	case c.EarlyData && x.r.Header.Get("Early-Data") == "1":
		x.refuse(TooEarly)
	case c.MaxRequestAge > 0 && !sentWithin(x.r.Header, c.MaxRequestAge):
		x.refuse(RequestTooOld)
	case !x.shadow && x.readBody():
		x.decide()
	}
}

func (x *exchange) invalidKey(err error) {
	p := x.problem(InvalidKey)
	if ke, ok := errors.AsType[*stet.KeyError](err); ok {
		p.Detail = "The Idempotency-Key cannot be used: " + ke.Reason + "."
	}
	p.Status = cmp.Or(x.g.cfg.Status.InvalidKey, p.Status)
	x.answer(p)
}

// clientsAhead is how far a client's clock may be ahead of this one. A date beyond is no date of
// anything that was sent, and would pass as young for as long as it lies ahead.
const clientsAhead = 5 * time.Minute

// sentWithin reports whether Idempotency-First-Sent says that the request is not older than limit.
func sentWithin(h http.Header, limit time.Duration) bool {
	sent, err := http.ParseTime(h.Get("Idempotency-First-Sent"))
	age := time.Since(sent)
	return err == nil && -clientsAhead <= age && age <= limit
}

func (x *exchange) readBody() bool {
	c := &x.g.cfg
	x.body.buf, x.asked = x.memory(), x.r.ContentLength <= c.MaxBody
	err := x.body.read(x.w, x.r, c.MaxBody, c.BodyTimeout)
	if err == nil {
		return true
	}
	x.body.drop()
	tooLarge := new(http.MaxBytesError)
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, ledger.ErrTooLong), errors.As(err, &tooLarge):
		x.refuse(PayloadTooLarge)
	case errors.Is(err, ledger.ErrNoRoom):
		x.answer(x.problem(RateLimited).After(retrySoon))
	case framing.Broken(err) && !(errors.As(err, &slow) && slow.Timeout()):
		x.refuse(BadFraming)
	default: // it came too slowly, or the client went away
		x.lastOnConnection() // the rest of the body would be read as another request
		x.refuse(RequestTimeout)
	}
	return false
}
