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
	said := func(e Effect) *Answer { return &Answer{Found: e.String()} }
	for name, c := range map[string]struct {
		h      stet.Head
		late   bool
		last   *Answer
		settle time.Duration
		want   Release
	}{
		"it runs":                          {h: unknown(9, running), want: ReleaseKnown},
		"its lease has ended":              {h: unknown(20, running), want: ReleaseNotSettled},
		"its lease ended long ago":         {h: unknown(310, running), want: ReleaseSettled},
		"completed":                        {h: unknown(400, func(h *stet.Head) { h.State = stet.Completed }), want: ReleaseKnown},
		"retryable":                        {h: unknown(400, func(h *stet.Head) { h.State = stet.Retryable }), want: ReleaseKnown},
		"bytes have left":                  {h: unknown(400, func(h *stet.Head) { h.Published = true }), late: true, want: ReleasePublished},
		"a late answer, before it settled": {h: unknown(20), late: true, want: ReleaseLateAnswer},
		"a late answer":                    {h: unknown(400), late: true, last: said(Missing), want: ReleaseLateAnswer},
		"the last probe found it":          {h: unknown(400), last: said(Happened), want: ReleaseFound},
		"it goes on":                       {h: unknown(20), last: said(GoesOn), want: ReleaseFound},
		"its handler has not returned":     {h: unknown(9), last: said(Missing), want: ReleaseAttended},
		"one instant too early":            {h: unknown(309), last: said(Missing), want: ReleaseNotSettled},
		"no trace":                         {h: unknown(310), last: said(Missing), want: ReleaseNoTrace},
		"cancelled":                        {h: unknown(310), last: said(Voided), want: ReleaseNoTrace},
		"nobody asked":                     {h: unknown(310), want: ReleaseSettled},
		"it was asked, and nobody knows what was said": {h: unknown(310, func(h *stet.Head) { h.Probes = 1 }), want: ReleaseUndecided},
		"the last probe could not tell":                {h: unknown(310), last: said(Pending), want: ReleaseUndecided},
		"the last probe got no answer":                 {h: unknown(310), last: &Answer{Found: Silent}, want: ReleaseUndecided},
		"time proves nothing":                          {h: unknown(11), last: said(Missing), settle: stet.Never, want: ReleaseUnprovable},
		"never, and it was found":                      {h: unknown(11), last: said(Happened), settle: stet.Never, want: ReleaseFound},
	} {
		if c.settle == 0 {
			c.settle = 5 * time.Minute
		}
		if got := (Plan{Settle: c.settle}).Release(&c.h, c.late, c.last); got != c.want {
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
