package maintenance_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/store/memstore"
)

// A service runs its loops until it ends.
func ExampleBackground() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	background := maintenance.Background{Engine: engine, Loops: []func(context.Context) error{
		maintenance.Trimmer{Engine: engine, Age: 365 * 24 * time.Hour}.Run,
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- background.Run(ctx) }()
	cancel() // the service is about to end
	fmt.Println("all loops have ended:", <-ended)
	// Output: all loops have ended: <nil>
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
