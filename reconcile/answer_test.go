package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// What a probe was answered stays with the record. It is no entry of the history, unless a person
// has asked, and changes nothing that a person decides on.
func TestAnswersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		answers := []func() (Finding, error){
			func() (Finding, error) { return Finding{Evidence: "202: neither", Status: 202}, nil },
			func() (Finding, error) { return Finding{}, errors.New("no route to host") },
			func() (Finding, error) { return Finding{Effect: Missing, Evidence: "404", Status: 404}, nil },
		}
		asked := 0
		r := Reconciler{MaxProbes: len(answers), Settle: stet.Never, Resolver: func(context.Context, stet.Head) (Finding, error) {
			time.Sleep(12 * time.Millisecond)
			asked++
			return answers[asked-1]()
		}}
		const took = 12 * time.Millisecond
		for i, want := range []stet.LastProbe{
			{Took: took, Found: "pending", Status: 202, Evidence: "202: neither"},
			{Took: took, Found: Silent, Evidence: "no route to host"},
			{Took: took, Found: "missing", Status: 404, Evidence: "404"},
		} {
			for asked == i {
				w.keep(1, r, 15*time.Second)
			}
			rec := w.state(0)
			got, ok := rec.LastProbe()
			if want.At = got.At; !ok || got != want || rec.AsOf.Sub(got.At) > 15*time.Second {
				t.Errorf("probe %d: %+v, %v", i+1, got, ok)
			}
		}
		entries, _, err := w.Operator().History(t.Context(), stet.HistoryQuery{})
		if err != nil || len(entries) != 1 || entries[0].Action() != "escalate" {
			t.Errorf("%+v, %v", entries, err)
		}
		dead := w.state(0)
		r.Engine, r.Resolver = w.Engine, func(context.Context, stet.Head) (Finding, error) {
			return Finding{Evidence: "not yet"}, nil
		}
		a, err := r.Ask(t.Context(), &dead.Head, stet.Note{Who: "kim", Why: "the customer calls"})
		now := w.state(0)
		last, ok := now.LastProbe()
		if last.At = (time.Time{}); err != nil || !ok || a.Answer != last || last.Evidence != "not yet" || now.Basis() != dead.Basis() || !now.Escalated {
			t.Errorf("%+v, %+v, %v", a, last, err)
		}
		entries, _, err = w.Operator().History(t.Context(), stet.HistoryQuery{})
		if err != nil || len(entries) != 2 || entries[0].Action() != ActionProbe || entries[0].Note.Who != "kim" ||
			!strings.HasPrefix(entries[0].Note.Evidence, "pending, in ") || entries[0].Attempt != 1 {
			t.Errorf("%+v, %v", entries, err)
		}
		other := now.Head
		other.Attempt++
		if _, err := w.Operator().Probed(t.Context(), &other, last, nil); !errors.Is(err, stet.ErrOtherRun) {
			t.Errorf("about another attempt: %v", err)
		}
	})
}

// An operator who decides while a probe is under way is not overtaken by its answer: what they
// decide on stays the same.
func TestAnswerOvertakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		var seen stet.Head
		r := Reconciler{Settle: stet.Never, Resolver: func(context.Context, stet.Head) (Finding, error) {
			seen = w.state(0).Head
			return Finding{}, nil
		}}
		w.keep(1, r, 15*time.Second)
		if now := w.state(0); now.Basis() != seen.Basis() {
			t.Errorf("the basis was %s, and is %s", seen.Basis(), now.Basis())
		}
		if _, err := w.Operator().Resolve(t.Context(), id(0), stet.Execution{Fence: seen.Fence()}, stet.Resolution{}, stet.Note{Who: "kim", Why: "asked"}); err != nil {
			t.Error(err)
		}
	})
}

// What is found about a record that has come to an end meanwhile is in the history.
func TestAnswerAboutWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		r := Reconciler{Resolver: func(ctx context.Context, h stet.Head) (Finding, error) {
			of := stet.Execution{Fence: h.Fence()}
			if _, err := w.Operator().Resolve(ctx, h.ID, of, stet.Resolution{}, stet.Note{Who: "kim", Why: "asked"}); err != nil {
				t.Error(err)
			}
			return Finding{Effect: Happened, Evidence: "ch_1"}, nil // and no answer for its retries
		}}
		w.keep(1, r, 15*time.Second)
		entries, _, err := w.Operator().History(t.Context(), stet.HistoryQuery{})
		if err != nil || len(entries) != 2 || entries[0].Action() != ActionProbe || !strings.HasSuffix(entries[0].Note.Evidence, ": ch_1") {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}

// What a probe has found counts also where an operator has snoozed the record meanwhile.
func TestFindingOfASnoozedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 2)
		w.keep(1, Reconciler{MaxProbes: 1, Resolver: func(ctx context.Context, h stet.Head) (Finding, error) {
			if _, err := w.Operator().Snooze(ctx, h.ID, 0, time.Hour, stet.Note{Who: "kim", Why: "lunch"}); err != nil {
				t.Error(err)
			}
			if h.Key == "k1" { // more than that has changed
				seen := w.state(1)
				if _, _, err := w.Operator().Probing(ctx, &seen.Head, time.Minute, nil); err != nil {
					t.Error(err)
				}
			}
			return happened(ctx, h)
		}}, 15*time.Second)
		if got := w.state(0); got.State != stet.Completed || string(got.Response.Body) != "ch_1" {
			t.Errorf("it is %s", got.State)
		}
		if got := w.state(1); got.State != stet.Unknown {
			t.Errorf("changed besides, it is %s", got.State)
		}
	})
}

func TestAnswersInWords(t *testing.T) {
	for want, a := range map[string]stet.LastProbe{
		"missing, status 404, in 12.35ms: the probe was answered 404": {Found: "missing", Status: 404, Took: 12345 * time.Microsecond, Evidence: "the probe was answered 404"},
		"silent, in 10000ms: dial: refused":                           {Found: Silent, Took: 10 * time.Second, Evidence: "dial: refused"},
		"pending, in 0.02ms":                                          {Found: "pending", Took: 20 * time.Microsecond},
	} {
		if got := inWords(&a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if long := answerTo(&Finding{Evidence: strings.Repeat("é", 1000)}, nil, 0); len(long.Evidence) > maxEvidence+len("…") {
		t.Errorf("%d bytes of evidence", len(long.Evidence))
	}
}

// The key that a probe asks about is in no entry, also where nothing answers.
func TestAnswersHoldNoKey(t *testing.T) {
	w := newWard(t, 1)
	rec := w.state(0)
	r := Reconciler{Engine: w.Engine, Resolver: Probe{URL: "http://127.0.0.1:1/secret?key={key}"}.Resolve, Timeout: time.Second}
	if _, err := r.Ask(t.Context(), &rec.Head, stet.Note{Who: "kim"}); !errors.Is(err, ErrNoAnswer) {
		t.Fatal(err)
	}
	now := w.state(0)
	a, ok := now.LastProbe()
	entries, _, err := w.Operator().History(t.Context(), stet.HistoryQuery{})
	if err != nil || len(entries) != 1 || strings.Contains(entries[0].Note.Evidence, "secret") {
		t.Errorf("%+v, %v", entries, err)
	}
	if !ok || a.Found != Silent || strings.Contains(a.Evidence, "k0") || strings.Contains(a.Evidence, "secret") {
		t.Errorf("%+v, %v", a, ok)
	}
}

// What a probe has found stands until it is said to be voided: no probe without an answer erases
// it, and neither one that finds no trace frees the key, nor a person who does not say that they
// know better.
func TestTheAnswerThatCounts(t *testing.T) {
	for said, want := range map[string]string{
		"happened silent": "happened", "happened pending silent": "happened", "happened missing": "happened",
		"happened voided silent": "voided", "voided happened": "happened", "missing silent": "silent", "pending missing": "missing",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, 1)
			r := Reconciler{Engine: w.Engine, Settle: time.Minute, Resolver: func(context.Context, stet.Head) (Finding, error) {
				return Finding{Effect: Missing}, nil
			}}
			time.Sleep(time.Hour)
			rec := w.state(0)
			for found := range strings.FieldsSeq(said) {
				if _, err := w.Operator().Probed(t.Context(), &rec.Head, stet.LastProbe{Found: found}, nil); err != nil {
					t.Fatal(err)
				}
			}
			rec = w.state(0)
			if last, ok := rec.LastProbe(); !ok || last.Found != want {
				t.Errorf("%s: %q", said, last.Found)
			}
			free := func(res stet.Resolution) error {
				_, err := w.Operator().Resolve(t.Context(), id(0), stet.Execution{Fence: rec.Fence()}, res, stet.Note{Who: "kim", Why: "knows"})
				return err
			}
			if want == "happened" {
				if err := free(stet.Resolution{Now: true}); !errors.Is(err, stet.ErrFound) {
					t.Errorf("%s: it is freed: %v", said, err)
				}
			}
			if a, err := r.Ask(t.Context(), &rec.Head, stet.Note{Who: "kim"}); err != nil || a.Ended == (want == "happened") {
				t.Errorf("%s: a probe that finds no trace ends it: %v, %v", said, a.Ended, err)
			}
			if want == "happened" {
				if err := free(stet.Resolution{Override: true}); err != nil {
					t.Errorf("%s: an override: %v", said, err)
				}
			}
		})
	}
}

// A provider that has cancelled what it had found before is believed.
func TestVoidedAfterFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		rec := w.state(0)
		if _, err := w.Operator().Probed(t.Context(), &rec.Head, stet.LastProbe{Found: stet.FoundHappened}, nil); err != nil {
			t.Fatal(err)
		}
		r := Reconciler{Engine: w.Engine, Resolver: func(context.Context, stet.Head) (Finding, error) {
			return Finding{Effect: Voided}, nil
		}}
		rec = w.state(0)
		if a, err := r.Ask(t.Context(), &rec.Head, stet.Note{Who: "kim"}); err != nil || !a.Ended || a.Head.State != stet.Retryable {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
