package maintenance_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/store/memstore"
)

// A service runs both loops until it ends.
func Example() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	for _, run := range []func(context.Context) error{
		maintenance.Sweeper{Engine: engine}.Run,
		maintenance.Reaper{Engine: engine, Every: time.Minute, Batch: 500}.Run,
	} {
		loops.Go(func() {
			if err := run(ctx); err != nil { // a setting that cannot be used
				panic(err)
			}
		})
	}
	cancel() // the service is about to end
	loops.Wait()
	fmt.Println("both loops have ended")
	// Output: both loops have ended
}

// The settings of a loop change while it runs, as with a configuration that is read again.
func ExampleRunner() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var sweeper maintenance.Runner
	go func() { _ = sweeper.Run(ctx) }()
	fmt.Println(sweeper.Set(maintenance.Sweeper{Engine: engine, Every: time.Minute}))
	fmt.Println(sweeper.Set(maintenance.Sweeper{Engine: engine, Every: -1}))
	// Output:
	// <nil>
	// maintenance: Sweeper.Every is -1ns; it has to be from 1ms to 876000h0m0s, or 0 for the default
}
