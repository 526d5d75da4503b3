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

// A timeout leaves the outcome unknown. An operator who has found out what happened ends that.
func ExampleOperator_Resolve() {
	ctx, engine := context.Background(), exampleEngine()
	request := stet.Request{ID: stet.ID{Scope: "tenant-1", Key: "8e03978e"}}
	d, err := engine.Begin(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	d.Claim.Unknown("timeout")
	if err := d.Claim.Settle(ctx, stet.Outcome{}); err != nil {
		fmt.Println(err)
		return
	}

	d, _ = engine.Begin(ctx, request)
	fmt.Println(d.Verdict)

	charged := stet.Resolution{Response: &stet.Response{Status: 201, Body: []byte("receipt 1")}}
	_, err = engine.Operator().Resolve(ctx, request.ID, d.Record.Execution(), charged, stet.Note{Who: "ann", Why: "the provider has the charge"})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, _ = engine.Begin(ctx, request)
	fmt.Printf("%s: %s\n", d.Verdict, d.Record.Response.Body)
	// Output:
	// unresolved
	// replay: receipt 1
}

// A handler that proves that nothing happened frees the key for one retry.
func ExampleClaim_NotExecuted() {
	ctx, engine := context.Background(), exampleEngine()
	request := stet.Request{ID: stet.ID{Scope: "tenant-1", Key: "8e03978e"}}
	for range 2 {
		d, err := engine.Begin(ctx, request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Verdict, "attempt", d.Claim.Attempt())
		d.Claim.NotExecuted("out-of-stock")
		if err := d.Claim.Settle(ctx, stet.Outcome{}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// execute attempt 1
	// execute attempt 2
}

// Two spellings of a field value are the same key.
func ExampleKeyRule_Parse() {
	for _, line := range []string{`"8e03978e"`, `8e03978e`, `"8e03978e`} {
		key, err := stet.KeyRule{}.Parse([]string{line})
		if err != nil {
			fmt.Println("refused")
			continue
		}
		fmt.Println(string(key))
	}
	// Output:
	// 8e03978e
	// 8e03978e
	// refused
}

// The order of members, white space and the member that is left out do not matter; the amount does.
func ExampleRecipe() {
	recipe, err := stet.Recipe{Exclude: []string{"/sent_at"}}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := func(body string) [32]byte {
		header := map[string][]string{"Content-Type": {"application/json"}}
		return recipe.Fingerprint(&stet.Subject{Method: "POST", Path: "/charges", Header: header, Body: []byte(body)}).Sum
	}
	first := sum(`{"amount":10,"sent_at":1}`)
	fmt.Println(first == sum(`{"sent_at": 2, "amount": 1e1}`))
	fmt.Println(first == sum(`{"amount":11,"sent_at":1}`))
	// Output:
	// true
	// false
}
