package stet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// found is a record as loops may find it, with what they make of it while all clients are silent.
type found struct {
	state stet.State
	rule  stet.LapseRule
	point string // "", a phase of the flow at hand, or of another
	kept  string // the request that is kept: none, the flow's, or another's
	keep  time.Duration
}

// ends says who moves it, and to what, until it is gone or people have it.
func (f *found) ends() string {
	const lost = "sweeper:unknown, reconciler:dead letter"
	retained := "reaper:gone"
	if f.keep > 0 && f.state == stet.Completed {
		retained = "reaper:expired, reaper:gone"
	}
	switch f.state {
	case stet.Completed, stet.Retryable, stet.Expired:
		return retained
	case stet.Unknown:
		return "reconciler:dead letter"
	case stet.Running:
	}
	switch {
	case f.rule == stet.LapseReexecute && f.keep > 0:
		return "sweeper:expired, reaper:gone"
	case f.rule == stet.LapseReexecute:
		return "sweeper:expired, reaper:gone"
	case f.rule == stet.LapseAtomic:
		return "sweeper:retryable, reaper:gone"
	case f.rule == stet.LapseResume && f.point == "charge" && f.kept == "this flow's" && f.keep > 0:
		return "request:running, holder:completed, reaper:expired, reaper:gone"
	case f.rule == stet.LapseResume && f.point == "charge" && f.kept == "this flow's":
		return "request:running, holder:completed, reaper:gone"
	}
	return lost // no rule lets it go on, or it did not go on for as long as its result would be kept
}

// TestEveryRecordHasAnOwner leaves a record of every kind to the loops, without a request for it:
// each is ended by one of them.
func TestEveryRecordHasAnOwner(t *testing.T) { // A09, A12, I15
	var all []found
	for state := stet.Running; state <= stet.Expired; state++ {
		for rule := stet.LapseUnknown; rule.Valid(); rule++ {
			for _, point := range []string{"", "charge", "elsewhere"} {
				for _, kept := range []string{"none", "this flow's", "another's"} {
					for _, keep := range []time.Duration{0, time.Hour} {
						all = append(all, found{state, rule, point, kept, keep})
					}
				}
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		moved := map[stet.Key][]string{}
		tell := func(key stet.Key, what string) {
			mu.Lock()
			defer mu.Unlock()
			moved[key] = append(moved[key], what)
		}
		store := memstore.New(memstore.Config{})
		rules := stet.Rules{Retain: time.Hour, OnLapse: stet.LapseResume}
		e, err := stet.New(store, stet.Config{Policy: stet.Policy{Rules: rules}, Observe: func(ev stet.Event) {
			switch {
			case ev.Kind == stet.Transition && ev.To == 0:
				tell(ev.ID.Key, ev.By+":gone")
			case ev.Kind == stet.Transition:
				tell(ev.ID.Key, ev.By+":"+ev.To.String())
			case ev.Kind == stet.Probed && ev.Result == "failed":
				tell(ev.ID.Key, "reconciler:dead letter")
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range all {
			if _, err := store.Create(t.Context(), f.record(t, i)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 6*time.Hour)
		defer stop()
		var loops sync.WaitGroup
		silent := reconcile.Resolver(func(context.Context, stet.Head) (reconcile.Finding, error) { return reconcile.Finding{}, nil })
		for _, run := range []func(context.Context) error{maintenance.Sweeper{Engine: e}.Run, maintenance.Reaper{Engine: e}.Run,
			reconcile.Reconciler{Engine: e, Resolver: silent}.Run, flow.Completer{Engine: e, Flows: []flow.Resumer{pay(t, e)}}.Run} {
			loops.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		loops.Wait()
		for i, f := range all {
			key := stet.Key(fmt.Sprint(i))
			r, err := store.Get(t.Context(), stet.ID{Scope: "s", Key: key})
			if over := err != nil || r.State == stet.Unknown && r.Escalated; !over {
				t.Errorf("%+v: it is %v, and nobody ends it", f, r.State)
			}
			was := strings.Join(moved[key], ", ")
			if was == "" && err != nil { // the store removed it, with others
				was = "reaper:gone"
			} else if err != nil && !strings.HasSuffix(was, "gone") {
				was += ", reaper:gone"
			}
			if was != f.ends() {
				t.Errorf("%+v:\n   was %s\n  want %s", f, was, f.ends())
			}
		}
	})
}

func (f *found) record(t *testing.T, i int) stet.Record {
	t.Helper()
	r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(i))}, Version: stet.Version(i + 1), State: f.state, Attempt: 1,
		Point: f.point, DueIn: time.Minute, Rules: stet.Rules{Retain: time.Hour, OnLapse: f.rule, KeepExpired: f.keep}}}
	kept := map[string]any{"flow": "pay", "schema": 1, "state": struct{}{}}
	switch f.kept {
	case "none":
		return r
	case "another's":
		kept["flow"] = "refund"
	}
	var err error
	if r.Request, err = json.Marshal(kept); err != nil {
		t.Fatal(err)
	}
	return r
}

func pay(t *testing.T, e *stet.Engine) *flow.Flow[struct{}] {
	t.Helper()
	f, err := flow.New(flow.Config[struct{}]{Name: "pay", Engine: e, Answer: func(*struct{}) stet.Response { return stet.Response{Status: 201} }},
		flow.Foreign("charge", func(context.Context, *flow.Call, *struct{}) error { return nil }).HonoursKey())
	if err != nil {
		t.Fatal(err)
	}
	return f
}
