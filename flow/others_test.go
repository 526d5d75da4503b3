package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/store/memstore"
)

// reads counts the records that are read whole.
type reads struct {
	stet.Store
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	r.n.Add(1)
	return r.Store.Get(ctx, id)
}

// waits stores an abandoned run of another program.
func waits(t testing.TB, s stet.Store, key, name, point string) {
	t.Helper()
	request, err := json.Marshal(map[string]any{"flow": name, "schema": 1, "state": counts{}})
	if err != nil {
		t.Fatal(err)
	}
	r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(key)}, Version: 7, State: stet.Running, Attempt: 1, Point: point,
		DueIn: time.Second, Rules: policy.Rules}, Body: stet.Body{Request: request}}
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// A Completer reads the records of its flows: of others that wait for their own program it reads
// the heads, and each of those that could be its own once.
func TestACompleterReadsWhatIsItsOwn(t *testing.T) { // K15
	synctest.Test(t, func(t *testing.T) {
		const others = 500
		s := &reads{Store: memstore.New(memstore.Config{})}
		e := engineOn(t, s)
		f := build(t, flow.Config[counts]{Engine: e}, add("a").HonoursKey())
		for i := range others {
			waits(t, s, fmt.Sprint("point", i), "g", "ship")
		}
		time.Sleep(time.Minute)
		if n, err := (flow.Completer{Engine: e, Flows: []flow.Resumer{f}}).Round(t.Context()); n != 0 || err != nil || s.n.Load() != 0 {
			t.Errorf("%d were answered, %v; %d records of points that no phase has were read", n, err, s.n.Load())
		}
		for i := range others {
			waits(t, s, fmt.Sprint("other", i), "g", "a")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- flow.Completer{Engine: e, Flows: []flow.Resumer{f}}.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		if n := s.n.Load(); n != others {
			t.Errorf("%d records were read in ten minutes; want %d, each once", n, others)
		}
		waits(t, s, "mine", "f", "a")
		id := stet.ID{Scope: "s", Key: "other3"}
		h := stet.Head{ID: id, Version: 8, State: stet.Running, Attempt: 1, Point: "a", DueIn: time.Second, Rules: policy.Rules}
		request, _ := json.Marshal(map[string]any{"flow": "f", "schema": 1, "state": counts{}})
		if _, err := s.Replace(t.Context(), 7, h, &stet.Body{Request: request}); err != nil { // it is another record now
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		for _, key := range []stet.Key{"mine", "other3"} {
			if r, err := s.Get(t.Context(), stet.ID{Scope: "s", Key: key}); err != nil || r.State != stet.Completed {
				t.Errorf("%s is %v, %v", string(key), r.State, err)
			}
		}
	})
}
