package stethttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// preferredWait reads wait=N, in whole seconds, from a Prefer header (RFC 7240 section 4.3). The
// first one counts (section 2). A value that cannot be read is ignored, as any preference may be.
func preferredWait(h http.Header) (time.Duration, bool) {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.Trim(name, " \t"), "wait") {
				continue
			}
			const longest = 1 << 30 // seconds; more would overflow
			n, err := strconv.ParseUint(strings.Trim(value, ` "`+"\t"), 10, 63)
			return time.Duration(min(n, longest)) * time.Second, err == nil
		}
	}
	return 0, false
}

// wait returns how long a duplicate waits for a running request, and whether its client has asked
// for that.
func (c *Config) wait(h http.Header) (d time.Duration, preferred bool) {
	if d, preferred = preferredWait(h); preferred {
		return min(d, c.WaitTimeout), true
	}
	if c.Waiting == Wait {
		return c.WaitTimeout, false
	}
	return 0, false
}

// await waits for the run that d has met, as long as policy and client want. It reports false if
// the request has been answered.
func (x *exchange) await(d *stet.Decision) bool {
	wait, preferred := x.g.cfg.wait(x.r.Header)
	if wait > 0 {
		x.body.drop() // the fingerprint is taken, and many may wait
		began, seen := time.Now(), d.Record.Version
		after, err := x.g.engine.Await(x.r.Context(), *d, wait)
		if err != nil {
			x.storeFailed(err, false) // the key is known to run, and the body is gone
			return false
		}
		*d = after
		if after.Record.Version == seen && time.Since(began) < wait { // too many wait already, so it did not wait
			preferred = false
		}
	}
	if preferred { // RFC 7240 section 3
		x.w.Header().Set("Preference-Applied", "wait="+strconv.FormatInt(int64(wait/time.Second), 10))
	}
	return true
}
