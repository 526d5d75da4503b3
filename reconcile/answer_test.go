package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// What a probe was answered stays with the record, in the history, and gives the record no other
// version.
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
		for i, want := range []Answer{
			{Took: took, Found: "pending", Status: 202, Evidence: "202: neither"},
			{Took: took, Found: Silent, Evidence: "no route to host"},
			{Took: took, Found: "missing", Status: 404, Evidence: "404"},
		} {
			for asked == i {
				w.keep(1, r, 15*time.Second)
			}
			rec := w.state(0)
			got, ok, err := LastAnswer(t.Context(), w.Engine, &rec.Head)
			if want.At = got.At; err != nil || !ok || got != want || rec.AsOf.Sub(got.At) > 15*time.Second {
				t.Errorf("probe %d: %+v, %v, %v", i+1, got, ok, err)
			}
		}
		entries, _, err := w.Operator().History(t.Context(), stet.HistoryQuery{})
		if err != nil || len(entries) != 4 || entries[0].Action() != "escalate" || entries[1].Note.Why != "probe 3 of 3" || entries[1].Attempt != 1 {
			t.Errorf("%+v, %v", entries, err)
		}
		dead := w.state(0)
		r.Engine, r.Resolver = w.Engine, func(context.Context, stet.Head) (Finding, error) {
			return Finding{Evidence: "not yet"}, nil
		}
		a, err := r.Ask(t.Context(), &dead.Head, stet.Note{Who: "kim", Why: "the customer calls"})
		last, ok, _ := LastAnswer(t.Context(), w.Engine, &dead.Head)
		if last.At = (time.Time{}); err != nil || !ok || a.Answer != last || last.Evidence != "not yet" || w.state(0).Version != dead.Version {
			t.Errorf("%+v, %+v, %v", a, last, err)
		}
		other := dead.Head
		other.Attempt++
		if a, ok, err := LastAnswer(t.Context(), w.Engine, &other); ok || err != nil {
			t.Errorf("it is another attempt's: %+v, %v", a, err)
		}
	})
}

// An operator who decides while a probe is under way is not overtaken by its answer.
func TestAnswerOvertakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		var seen stet.Version
		r := Reconciler{Settle: stet.Never, Resolver: func(context.Context, stet.Head) (Finding, error) {
			seen = w.state(0).Version
			return Finding{}, nil
		}}
		w.keep(1, r, 15*time.Second)
		if now := w.state(0); seen == 0 || now.Version != seen {
			t.Errorf("version %d became %d", seen, now.Version)
		}
		if _, err := w.Operator().Resolve(t.Context(), id(0), stet.Execution{Version: seen}, stet.Resolution{}, stet.Note{Who: "kim", Why: "asked"}); err != nil {
			t.Error(err)
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

func TestAnswersAreText(t *testing.T) {
	for _, a := range []Answer{
		{Found: "missing", Status: 404, Took: 12345 * time.Microsecond, Evidence: "the probe was answered 404"},
		{Found: Silent, Took: 10 * time.Second, Evidence: "dial: refused, in 3s: no: way"},
		{Found: "pending", Took: 20 * time.Microsecond},
	} {
		got, ok := AnswerOf(&stet.Change{Note: stet.Note{Action: ActionProbe, Evidence: a.String()}})
		if a.Took = a.Took.Round(10 * time.Microsecond); !ok || got != a {
			t.Errorf("%q: %+v, %v", a, got, ok)
		}
	}
	for _, none := range []string{"", "the probe was answered 404", "missing, status x, in 1s", "missing, in a moment"} {
		if a, ok := AnswerOf(&stet.Change{Note: stet.Note{Action: ActionProbe, Evidence: none}}); ok {
			t.Errorf("%q is no answer: %+v", none, a)
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
	a, ok, err := LastAnswer(t.Context(), w.Engine, &rec.Head)
	if err != nil || !ok || a.Found != Silent || strings.Contains(a.Evidence, "k0") || strings.Contains(a.Evidence, "secret") {
		t.Errorf("%+v, %v, %v", a, ok, err)
	}
}

// What a probe has found stands until it is said to be voided: no probe without an answer erases
// it, and none that finds no trace frees the key.
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
				if err := r.leave(t.Context(), &rec.Head, Answer{Found: found}, "r", ""); err != nil {
					t.Fatal(err)
				}
			}
			last, ok, err := LastAnswer(t.Context(), w.Engine, &rec.Head)
			if err != nil || !ok || last.Found != want {
				t.Errorf("%s: %q, %v", said, last.Found, err)
			}
			if a, err := r.Ask(t.Context(), &rec.Head, stet.Note{Who: "kim"}); err != nil || a.Ended == (want == "happened") {
				t.Errorf("%s: a probe that finds no trace ends it: %v, %v", said, a.Ended, err)
			}
		})
	}
}

// longStore has a history whose end is not reached.
type longStore struct{ stet.Store }

func (longStore) History(context.Context, stet.HistoryQuery) ([]stet.Change, string, error) {
	return nil, "more", nil
}

func (longStore) Append(context.Context, stet.Change) error { return nil }

// What was not read is not taken for silence.
func TestAnswersBehindTheBounds(t *testing.T) {
	e, err := stet.New(longStore{memstore.New(memstore.Config{})}, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := LastAnswer(t.Context(), e, &stet.Head{ID: id(0)}); !errors.Is(err, errFar) {
		t.Error(err)
	}
}
