package breakerstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// After ten failures, the breaker answers in place of the store.
func Example() {
	server := faulty.New(memstore.New(memstore.Config{}), 1) // stands for a store on a server
	store, err := breakerstore.New(server, breakerstore.Config{
		Changed: func(from, to breakerstore.State) { fmt.Println("the breaker was", from, "and is", to) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id := stet.ID{Scope: "shop", Key: "order-1"}

	server.Down()
	for range 10 {
		_, _ = store.Get(context.Background(), id)
	}
	_, err = store.Get(context.Background(), id)
	fmt.Println(errors.Is(err, breakerstore.ErrOpen))
	// Output:
	// the breaker was closed and is open
	// true
}
