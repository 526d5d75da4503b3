package admin

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Who shows a wrong token may try a few more, and then has to wait, longer each time. None of this
// holds a connection open.
const (
	freeGuesses  = 5                // wrong tokens from one address before it has to wait
	firstWait    = time.Second      // after that, doubled by each further one
	longestWait  = time.Minute      // also how long the owner of a right token at the same address has to wait at most
	forgetAfter  = 10 * time.Minute // without a wrong token
	maxGuessers  = 4096             // addresses that are remembered; beyond them, who was quiet for longest is forgotten
	auditEvery   = time.Minute      // refused logins from one address that are in the audit trail
	maxAudited   = 60               // of all addresses together in auditEvery, or an attacker with many could fill the store
	guesserBits6 = 64               // what one holder of IPv6 addresses usually has
)

// Throttle slows down who shows wrong tokens, by address, of IPv6 by network. After five of them no
// token from there is accepted for a second, and after each further one for twice as long, up to a
// minute; ten minutes without one end that. It remembers the 4,096 addresses that showed one last,
// and lets 60 refused logins a minute into the audit trail, one of each address.
//
// A process that makes a new handler when its configuration changes hands the same Throttle to each
// of them, or every change would give away further guesses. The zero value is ready for use. It is
// safe for concurrent use.
type Throttle struct {
	mu      sync.Mutex
	from    map[netip.Prefix]*guesser
	audited int // since
	since   time.Time
}

type guesser struct {
	wrong   int
	last    time.Time
	until   time.Time // nothing is compared before
	audited time.Time
}

// take takes note of an attempt, right or wrong. It returns how long the address has to wait, in
// which case nothing was decided, and whether this wrong one belongs into the audit trail.
func (t *Throttle) take(from netip.Prefix, right bool) (wait time.Duration, audit bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, who := time.Now(), t.from[from]
	switch {
	case who != nil && now.Before(who.until):
		return who.until.Sub(now), false
	case right:
		return 0, false
	case who == nil || now.Sub(who.last) >= forgetAfter:
		who = &guesser{}
		t.add(from, who, now)
	}
	who.wrong, who.last = who.wrong+1, now
	if over := who.wrong - freeGuesses; over >= 0 {
		who.until = now.Add(min(firstWait<<min(over, 10), longestWait))
	}
	return 0, t.audits(who, now)
}

func (t *Throttle) add(from netip.Prefix, who *guesser, now time.Time) {
	if t.from == nil {
		t.from = map[netip.Prefix]*guesser{}
	}
	if _, known := t.from[from]; !known && len(t.from) >= maxGuessers {
		var quiet netip.Prefix
		last := now
		for p, other := range t.from {
			if !other.last.After(last) {
				quiet, last = p, other.last
			}
		}
		delete(t.from, quiet)
	}
	t.from[from] = who
}

func (t *Throttle) audits(who *guesser, now time.Time) bool {
	if now.Sub(t.since) >= auditEvery {
		t.since, t.audited = now, 0
	}
	if now.Sub(who.audited) < auditEvery || t.audited >= maxAudited {
		return false
	}
	who.audited = now
	t.audited++
	return true
}

// sender is whom a wrong token is held against: an address, of IPv6 its network. Those who come
// through a Unix socket are one.
func sender(r *http.Request) netip.Prefix {
	addr := address(r).WithZone("")
	bits := addr.BitLen()
	if addr.Is6() && !addr.IsLoopback() {
		bits = guesserBits6
	}
	p, _ := addr.Prefix(bits) // an address has so many, and none has none
	return p
}

// remote names the sender in the log and the audit trail.
func remote(r *http.Request) string {
	if addr := address(r); addr.IsValid() {
		return addr.String()
	}
	return "socket"
}
