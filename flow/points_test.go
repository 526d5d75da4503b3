package flow_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/memstore"
)

// A record says which phases were begun, and when, until it is completed: over attempts, and over
// what people find out.
func TestPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := map[string]error{"b": flow.RetryLater(errDown), "c": errDown}
		phase := func(name string, takes time.Duration) flow.Phase[counts] {
			return flow.Foreign(name, func(ctx context.Context, call *flow.Call, s *counts) error {
				return call.Do(ctx, func(context.Context, string) error {
					time.Sleep(takes)
					err := fail[name]
					delete(fail, name)
					return err
				})
			})
		}
		e := engineOn(t, memstore.New(memstore.Config{}))
		f := build(t, flow.Config[counts]{Engine: e, Backoff: time.Minute}, phase("a", time.Second), phase("b", 2*time.Second),
			phase("c", 4*time.Second), phase("d", 0))
		began := time.Now()
		points := func() (text string) {
			t.Helper()
			rec, err := e.Get(t.Context(), ask().ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range flow.Points(&rec) {
				text += fmt.Sprint(p.Name, " ", p.At.Sub(began), "; ")
			}
			return text
		}
		try := func() error {
			_, err := f.Do(t.Context(), ask(), counts{})
			return err
		}

		err := try()
		if got := points(); got != "a 0s; b 1s; " {
			t.Errorf("suspended in b, %v: %s", err, got)
		}
		time.Sleep(time.Minute)
		err = try() // from the 63rd second
		if got := points(); got != "a 0s; b 1s; c 1m5s; " {
			t.Errorf("in doubt about c, %v: %s", err, got)
		}
		time.Sleep(time.Hour)
		if err := f.Resolve(t.Context(), ask().ID, execution.Of(t.Context(), e, ask().ID), flow.Evidence[counts]{Phase: "c", Made: true}, clerk); err != nil {
			t.Fatal(err)
		}
		if got := points(); got != "a 0s; b 1s; c 1m5s; d 1h1m9s; " {
			t.Errorf("c was made: %s", got)
		}
		if err, got := try(), points(); err != nil || got != "" {
			t.Errorf("completed, %v: %s", err, got)
		}
		for name, rec := range map[string]stet.Record{
			"no flow's":      {Body: stet.Body{Progress: []byte(`{"points":[{"name":"x"}]}`)}},
			"no JSON":        {Body: stet.Body{Progress: []byte(`{`)}, Head: stet.Head{Point: "x"}},
			"without a body": {Head: stet.Head{Point: "x"}},
		} {
			if got := flow.Points(&rec); got != nil {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}

// A reservation that names the first phase has it from its beginning.
func TestPointOfAReservation(t *testing.T) {
	rec := stet.Record{Head: stet.Head{Point: "a", CreatedAt: time.Unix(7, 0)},
		Body: stet.Body{Request: []byte(`{"flow":"f","schema":0,"state":{}}`)}}
	if got := flow.Points(&rec); len(got) != 1 || got[0] != (flow.Point{Name: "a", At: time.Unix(7, 0)}) {
		t.Errorf("%v", got)
	}
}
