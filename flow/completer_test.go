package flow_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/store/memstore"
)

// Records that this program cannot go on with, of another flow, at an unknown point or of another
// schema, do not keep a Completer from the others, however many there are in front.
func TestForeignRecordsStarveNoCompleter(t *testing.T) { // A08, I15
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{})
		e := engineOn(t, s)
		f := build(t, flow.Config[counts]{Engine: e}, add("a").HonoursKey())
		abandon := func(key string, kept map[string]any, point string, in time.Duration) {
			request, err := json.Marshal(kept)
			if err != nil {
				t.Fatal(err)
			}
			r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(key)}, Version: 7, State: stet.Running, Attempt: 1, Point: point,
				DueIn: in, Rules: policy.Rules}, Body: stet.Body{Request: request}}
			if _, err := s.Create(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		own := map[string]any{"flow": "f", "schema": 1, "state": counts{}}
		for i := range 100 {
			abandon(fmt.Sprint("other", i), map[string]any{"flow": "g", "schema": 1, "state": counts{}}, "a", time.Second)
			abandon(fmt.Sprint("point", i), own, "gone", time.Second)
			abandon(fmt.Sprint("schema", i), map[string]any{"flow": "f", "schema": 9, "state": counts{}}, "a", time.Second)
		}
		abandon("mine", own, "a", 2*time.Second)
		<-time.After(10 * time.Minute) // long settled
		n, err := flow.Completer{Engine: e, Flows: []flow.Resumer{f}}.Round(t.Context())
		if n != 1 || err != nil {
			t.Errorf("%d were answered, %v", n, err)
		}
		r, err := s.Get(t.Context(), stet.ID{Scope: "s", Key: "mine"})
		if err != nil || r.State != stet.Completed {
			t.Errorf("it is %v, %v", r.State, err)
		}
	})
}
