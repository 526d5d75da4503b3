package figures_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/figures"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// A Go service counts what its guarded routes answer, and shows it to its operators.
func Example() {
	board := figures.New(figures.Config{Version: "v1.2.3"})
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Holder: "shop-1:4711", Observe: board.Observe})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = board.Run(ctx, engine) })
	operators := admin.New(engine, admin.Config{Config: operate.Config{Figures: board.Figures, Asking: board.Asking}}) // for a listener of their own

	_ = operators
	engine.Observe(stet.Event{Kind: stet.Answer, Route: "POST /orders", Result: "new"}) // as package stethttp does
	engine.Observe(stet.Event{Kind: stet.Answer, Route: "POST /orders", Result: "replay"})
	for _, r := range board.Figures(ctx).Routes {
		fmt.Println(r.Route, r.Results)
	}
	cancel()
	running.Wait()
	// Output:
	// POST /orders map[new:1 replay:1]
}
