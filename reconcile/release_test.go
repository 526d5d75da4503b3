package reconcile

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// Whether a record may be released is a table over state, evidence, the last probe and time.
func TestRelease(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	// A run of 10 s that ended as unknown, and is read after so many seconds.
	unknown := func(s int, edits ...func(h *stet.Head)) stet.Head {
		h := stet.Head{State: stet.Unknown, CreatedAt: born, Took: 10 * time.Second, AsOf: born.Add(time.Duration(s) * time.Second)}
		for _, edit := range edits {
			edit(&h)
		}
		return h
	}
	running := func(h *stet.Head) { h.State, h.DueAt = stet.Running, born.Add(10*time.Second) }
	said := func(found string) func(h *stet.Head) {
		return func(h *stet.Head) { regarded(h, `"probe":{"found":"`+found+`"}`) }
	}
	for name, c := range map[string]struct {
		h      stet.Head
		settle time.Duration
		want   Release
	}{
		"it runs":                          {h: unknown(9, running), want: ReleaseKnown},
		"its lease has ended":              {h: unknown(20, running), want: ReleaseNotSettled},
		"its lease ended long ago":         {h: unknown(310, running), want: ReleaseSettled},
		"completed":                        {h: unknown(400, func(h *stet.Head) { h.State = stet.Completed }), want: ReleaseKnown},
		"retryable":                        {h: unknown(400, func(h *stet.Head) { h.State = stet.Retryable }), want: ReleaseKnown},
		"bytes have left":                  {h: unknown(400, late, func(h *stet.Head) { h.Published = true }), want: ReleasePublished},
		"a late answer, before it settled": {h: unknown(20, late), want: ReleaseLateAnswer},
		"a late answer":                    {h: unknown(400, func(h *stet.Head) { regarded(h, `"late":"2026-01-02T03:00:30Z","probe":{"found":"missing"}`) }), want: ReleaseLateAnswer},
		"the last probe found it":          {h: unknown(400, said("happened")), want: ReleaseFound},
		"its handler has not returned":     {h: unknown(9, said("missing")), want: ReleaseAttended},
		"one instant too early":            {h: unknown(309, said("missing")), want: ReleaseNotSettled},
		"no trace":                         {h: unknown(310, said("missing")), want: ReleaseNoTrace},
		"cancelled":                        {h: unknown(310, said("voided")), want: ReleaseNoTrace},
		"nobody asked":                     {h: unknown(310), want: ReleaseSettled},
		"it was asked, and nobody knows what was said": {h: unknown(310, func(h *stet.Head) { h.Probes = 1 }), want: ReleaseUndecided},
		"the last probe could not tell":                {h: unknown(310, said("pending")), want: ReleaseUndecided},
		"the last probe got no answer":                 {h: unknown(310, said(Silent)), want: ReleaseUndecided},
		"time proves nothing":                          {h: unknown(11, said("missing")), settle: stet.Never, want: ReleaseUnprovable},
		"never, and it was found":                      {h: unknown(11, said("happened")), settle: stet.Never, want: ReleaseFound},
	} {
		if c.settle == 0 {
			c.settle = 5 * time.Minute
		}
		if got := (Plan{Settle: c.settle}).Release(&c.h); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for may, all := range map[bool][]Release{true: {ReleaseNoTrace, ReleaseSettled, ReleaseUndecided, ReleaseUnprovable},
		false: {ReleaseKnown, ReleasePublished, ReleaseLateAnswer, ReleaseFound, ReleaseAttended, ReleaseNotSettled}} {
		for _, r := range all {
			if r.May() != may {
				t.Errorf("%s: %v", r, r.May())
			}
		}
	}
}
