package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

func exampleEngine() *stet.Engine {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	return engine
}

// A caller that wants more than [stet.Do] decides, executes and settles by itself.
func ExampleEngine_Begin() {
	ctx, engine := context.Background(), exampleEngine()
	request := stet.Request{ID: stet.ID{Scope: "tenant-1", Key: "8e03978e"}, Subject: stet.Subject{Body: []byte("charge 10")}}
	for range 2 {
		d, err := engine.Begin(ctx, request)
		if err != nil { // the store did not answer: nothing may be executed
			fmt.Println(err)
			return
		}
		switch d.Verdict {
		case stet.Execute:
			held := d.Claim.Hold(ctx, nil)
			body := charge(held)
			if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: body}}); err != nil {
				fmt.Println(err)
			}
			fmt.Printf("charged: %s\n", body)
		case stet.Replay:
			fmt.Printf("again: %s\n", d.Record.Response.Body)
		default:
			fmt.Println(d.Verdict, "ask again in", d.RetryAfter(stet.DefaultExecution))
		}
	}
	// Output:
	// charged: receipt 1
	// again: receipt 1
}

func charge(context.Context) []byte { return []byte("receipt 1") }
