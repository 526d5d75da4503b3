package reconcile

import (
	"context"
	"errors"
	"strings"

	"github.com/stet-dev/stet"
)

// ErrNotKnown is returned for a record of which nothing says that it happened.
var ErrNotKnown = errors.New("reconcile: neither a late answer nor its last probe says that it happened")

// Adopt ends an unknown record as what is known of it already says: its late answer is what its
// retries get or, if it has none, the status with which the last probe found it. The note's
// evidence says so. It holds for the version that was read. The errors are [ErrNotKnown], and those
// of [stet.Operator.Resolve].
func Adopt(ctx context.Context, e *stet.Engine, rec *stet.Record, n stet.Note) (stet.Head, error) {
	res, evidence := adopted(rec), "the answer is the one that came too late"
	switch {
	case rec.State != stet.Unknown:
		return rec.Head, stet.ErrState
	case rec.Response == nil:
		a, ok, err := LastAnswer(ctx, e, &rec.Head)
		if err != nil {
			return rec.Head, err
		}
		if !ok || a.Found != Happened.String() || a.Status < 200 {
			return rec.Head, ErrNotKnown
		}
		res = stet.Resolution{Version: rec.Version, Response: &stet.Response{Status: a.Status}}
		if evidence = "its last probe: " + a.String(); rec.Published {
			res.Kept = stet.KeptStatus
		}
	}
	n.Evidence = strings.TrimPrefix(n.Evidence+"; "+evidence, "; ")
	return e.Operator().Resolve(ctx, rec.ID, res, n)
}

// adopted ends a record with the answer that came too late: an unknown record has no other.
func adopted(rec *stet.Record) stet.Resolution {
	res := stet.Resolution{Version: rec.Version, Response: rec.Response, Kept: rec.Kept}
	if rec.Published {
		res.Kept = stet.KeptStatus // its bytes have left, and were seen by who asked
	}
	return res
}
