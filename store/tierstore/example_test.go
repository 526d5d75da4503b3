package tierstore_test

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
	"github.com/stet-dev/stet/store/tierstore"
)

// A cache in the process answers replays, even while the origin is down.
func Example() {
	ctx := context.Background()
	origin := faulty.New(memstore.New(memstore.Config{}), 1) // stands for a store on a server
	store, err := tierstore.New(tierstore.NewMemory(16<<20), origin, tierstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := stet.New(store, stet.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	q := stet.Request{ID: stet.ID{Scope: "shop", Key: "order-1"}, Subject: stet.Subject{Body: []byte("two apples")}}
	first, err := engine.Begin(ctx, q)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = first.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("ordered")}})
	if err != nil {
		fmt.Println(err)
		return
	}

	origin.Down()
	again, err := engine.Begin(ctx, q)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Verdict, string(again.Record.Response.Body))
	// Output: replay ordered
}
