package faulty_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// A write whose reply is lost has happened: a retry meets its own record.
func Example() {
	ctx := context.Background()
	store := faulty.New(memstore.New(memstore.Config{}), 1)
	r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "shop", Key: "order-1"}, Version: 1, State: stet.Running}}

	store.LoseReplies(1)
	_, err := store.Create(ctx, r)
	fmt.Println(errors.Is(err, faulty.ErrFault))

	store.Up()
	_, err = store.Create(ctx, r)
	fmt.Println(errors.Is(err, stet.ErrExists))
	// Output:
	// true
	// true
}
