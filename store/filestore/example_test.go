package filestore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
)

func Example() {
	dir, err := os.MkdirTemp("", "stet")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	store, err := filestore.Open(dir, filestore.Config{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	engine, err := stet.New(store, stet.Config{})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	request := stet.Request{ID: stet.ID{Scope: "tenant", Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"}, Subject: stet.Subject{Body: []byte("charge 5")}}
	for range 2 {
		d, err := engine.Begin(ctx, request)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Verdict)
		if d.Claim != nil {
			err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("charged")}})
			if err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// execute
	// replay
}
