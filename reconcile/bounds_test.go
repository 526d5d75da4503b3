package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/stalling"
	"github.com/stet-dev/stet/store/memstore"
)

// Anybody can write headers that look like those of a notice. What follows them is bounded for all
// together, and short ones, which honest notices are, get through.
func TestNoticesShareABound(t *testing.T) { // C11
	w, hook := onStore(t, stores["memory"])
	resume := make(chan struct{})
	var stalled sync.WaitGroup
	held0 := held.Held()
	const n = 3 * maxNotices / maxNotice
	for i := range n {
		r := signedNotice(fmt.Sprint("msg_", i), "", secret, time.Now())
		reached := make(chan struct{})
		r.Body, r.ContentLength = io.NopCloser(&stalling.Reader{Reader: strings.NewReader(strings.Repeat("x", maxNotice-1)), Reached: reached, On: resume}), maxNotice
		if i%2 == 1 {
			r.ContentLength = -1 // in chunks
		}
		a := httptest.NewRecorder()
		done := make(chan struct{})
		stalled.Go(func() {
			defer close(done)
			hook.ServeHTTP(a, r)
		})
		select {
		case <-reached:
		case <-done:
			if toldBy(t, a) != "429 rate-limited" || a.Header().Get("Retry-After") != "1" {
				t.Errorf("notice %d: %s", i, toldBy(t, a))
			}
		}
		if held.Held() > maxNotices {
			t.Fatalf("%d bytes are held", held.Held())
		}
	}
	if got := held.Held(); got < maxNotices/2-maxNotice {
		t.Errorf("only %d bytes are held: nothing stalls", got)
	}
	if a := notify(hook, w.voided(0), secret, time.Now()); a.Code != 200 {
		t.Errorf("an honest notice: %d %s", a.Code, a.Body)
	}
	close(resume)
	stalled.Wait()
	if held.Held() != held0 {
		t.Errorf("%d bytes are held in the end", held.Held())
	}
	w.begin(0, stet.Execute)
}

// Numbers that cannot be meant are refused where they enter: a status that cannot be replayed is no
// evidence.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, stet.Head) (Finding, error) { return Finding{}, nil }
	valid := func() Reconciler { return Reconciler{Engine: e, Resolver: nothing} }
	bounds.Refuses(t, reconcilerBounds, valid, func(r Reconciler) error { _, err := r.Rounds(); return err })

	finding := func() Finding { return Finding{Effect: Happened, Response: &stet.Response{Status: 201}} }
	bounds.Refuses(t, findingBounds, finding, func(f Finding) error {
		r := Reconciler{Engine: e, Resolver: func(context.Context, stet.Head) (Finding, error) { return f, nil }}
		_, err := r.ask(t.Context(), stet.Head{})
		return err
	})
	probe := func() Probe {
		return Probe{URL: "http://127.0.0.1:1/{key}", Found: []int{200}, Missing: []int{404}}
	}
	bounds.Refuses(t, probeBounds, probe, func(p Probe) error {
		_, err := p.Resolve(t.Context(), stet.Head{})
		return cmp.Or(p.Validate(), err)
	})
	bounds.Refuses(t, webhookBounds, func() Webhook { return Webhook{Secrets: []string{secret}} }, func(h Webhook) error {
		err := h.Validate()
		a := httptest.NewRecorder()
		if h.ServeHTTP(a, signedNotice("msg_1", "{}", secret, time.Now())); err != nil && a.Code != http.StatusUnauthorized {
			t.Errorf("%v, and a notice is answered %d", err, a.Code)
		}
		return err
	})
}
