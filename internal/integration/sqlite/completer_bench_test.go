package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/store/sqlstore"
)

// BenchmarkRoundBesideOthers measures one round of a loop beside 10,000 runs of another program
// that wait to be resumed (K15). In "flow, whole" they could be the Completer's by their points,
// and are read, as all were in each round once, and are in the first now; in the others their heads
// tell.
func BenchmarkRoundBesideOthers(b *testing.B) {
	const others = 10_000
	type state struct{}
	db := database(b, filepath.Join(b.TempDir(), "stet.db"))
	s := over(b, db, sqlstore.Config{})
	rules := stet.Rules{OnLapse: stet.LapseResume}
	e, err := stet.New(s, stet.Config{Policy: stet.Policy{Rules: rules}})
	if err != nil {
		b.Fatal(err)
	}
	request, err := json.Marshal(map[string]any{"flow": "other", "schema": 1, "state": make([]byte, 2000)})
	if err != nil {
		b.Fatal(err)
	}
	slots := make(chan struct{}, 64)
	var wg sync.WaitGroup
	for i := range others {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			h := stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(i))}, Version: 7, State: stet.Running, Attempt: 1, Point: "charge",
				DueIn: time.Microsecond, Rules: rules}
			if _, err := s.Create(b.Context(), stet.Record{Head: h, Body: stet.Body{Request: request}}); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	with := func(phase string) flow.Completer {
		f, err := flow.New(flow.Config[state]{Name: "mine", Engine: e, Answer: func(*state) stet.Response { return stet.Response{Status: 201} }},
			flow.Foreign(phase, func(context.Context, *flow.Call, *state) error { return nil }))
		if err != nil {
			b.Fatal(err)
		}
		return flow.Completer{Engine: e, Flows: []flow.Resumer{f}}
	}
	for name, c := range map[string]flow.Completer{"flow, whole": with("charge"), "flow, heads": with("ship")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := c.Round(b.Context()); n != 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
	for name, q := range map[string]stet.Query{"jobs, all heads": {Limit: stet.MaxLimit}, "jobs, their scope": {Scope: stet.OwnScope, Limit: stet.MaxLimit}} {
		b.Run(name, func(b *testing.B) { // what a completer of one scope asks of the store in a round
			for b.Loop() {
				for after := ""; ; {
					q.After = after
					_, next, err := e.Operator().Abandoned(b.Context(), q)
					if err != nil {
						b.Fatal(err)
					}
					if after = next; next == "" {
						break
					}
				}
			}
		})
	}
}
