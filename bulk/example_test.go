package bulk_test

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/store/memstore"
)

// The provider was away for a while and has confirmed since that nothing of what was sent then was
// done.
func Example() {
	ctx := context.Background()
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	for _, key := range []stet.Key{"order-4711", "order-4712", "order-4713"} {
		d, err := engine.Begin(ctx, stet.Request{ID: stet.ID{Scope: "shop", Key: key}})
		if err != nil {
			panic(err)
		}
		d.Claim.Unknown("upstream-failed")
		if err := d.Claim.Settle(ctx, stet.Outcome{}); err != nil {
			panic(err)
		}
	}

	jobs := bulk.New(engine)
	which := stet.Query{Scope: "shop", States: []stet.State{stet.Unknown}}
	count, err := jobs.Count(ctx, bulk.Release, which)
	if err != nil {
		panic(err)
	}
	fmt.Println(count.Matching, "match:", count.States)
	job, err := jobs.Start(ctx, bulk.Order{Action: bulk.Release, Query: which, Expect: count.Matching, Now: true, // the provider's own list says so, and no probe is asked
		Note: stet.Note{Who: "ops@example.com", Why: "the provider did none of them, ticket 7"}})
	if err != nil {
		panic(err)
	}
	if err := jobs.Work(ctx, job.ID); err != nil { // jobs.Run, in a server
		panic(err)
	}
	if job, err = jobs.Get(ctx, job.ID); err != nil {
		panic(err)
	}
	fmt.Println(job.State, job.Done, job.Failed, job.Left)
	// Output:
	// 3 match: map[unknown:3]
	// completed 3 0 0
}
