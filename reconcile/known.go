package reconcile

import (
	"context"

	"github.com/stet-dev/stet"
)

// Known returns how an unknown record ends if what is known of it already is believed, and the
// evidence: its late answer is what its retries get or, if it has none, the status with which the
// last probe found it. Without a Response nothing says that it happened. It holds for the version
// that was read.
func Known(ctx context.Context, e *stet.Engine, rec *stet.Record) (stet.Resolution, string, error) {
	if rec.Response != nil {
		return adopted(rec), "the answer is the one that came too late", nil
	}
	res := stet.Resolution{Version: rec.Version}
	a, ok, err := LastAnswer(ctx, e, &rec.Head)
	if err != nil || !ok || a.Found != Happened.String() || a.Status < 200 {
		return res, "", err
	}
	if res.Response = (&stet.Response{Status: a.Status}); rec.Published {
		res.Kept = stet.KeptStatus
	}
	return res, "its last probe: " + a.String(), nil
}

// adopted ends a record with the answer that came too late: an unknown record has no other.
func adopted(rec *stet.Record) stet.Resolution {
	res := stet.Resolution{Version: rec.Version, Response: rec.Response, Kept: rec.Kept}
	if rec.Published {
		res.Kept = stet.KeptStatus // its bytes have left, and were seen by who asked
	}
	return res
}
