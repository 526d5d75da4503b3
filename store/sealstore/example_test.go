package sealstore_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sealstore"
)

// The store below holds no readable body; the wrapper returns it as it was written.
func Example() {
	ctx := context.Background()
	keys, err := sealstore.ParseKeys([]byte(`{
		"primary": "k1",
		"keys": {"k1": "bm90IGEgc2VjcmV0OiB0aGlzIGlzIGFuIGV4YW1wbGU="}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	below := memstore.New(memstore.Config{})
	store, err := sealstore.New(below, sealstore.Config{Keys: keys})
	if err != nil {
		fmt.Println(err)
		return
	}

	r := stet.Record{
		Head: stet.Head{ID: stet.ID{Scope: "shop", Key: "order-1"}, Version: 1, State: stet.Running},
		Body: stet.Body{Request: []byte("two apples")},
	}
	if _, err := store.Create(ctx, r); err != nil {
		fmt.Println(err)
		return
	}

	opened, _ := store.Get(ctx, r.ID)
	sealed, _ := below.Get(ctx, r.ID)
	fmt.Printf("opened: %s\n", opened.Request)
	fmt.Println("readable below:", bytes.Contains(append(sealed.Request, sealed.Progress...), r.Request))
	fmt.Println(keys) // keys never print
	// Output:
	// opened: two apples
	// readable below: false
	// [keys]
}
