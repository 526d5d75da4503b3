// Package execution names executions for tests.
package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// Of names the execution that the record of id is about now; zero if there is no such
// record, or it cannot be read.
func Of(ctx context.Context, e *stet.Engine, id stet.ID) stet.Execution {
	r, err := e.Get(ctx, id)
	if err != nil {
		return stet.Execution{}
	}
	return r.Execution()
}

// Double makes a double effect of the key: it is executed, freed on wrong evidence, and executed
// again; then the first execution answers after all.
func Double(ctx context.Context, e *stet.Engine, id stet.ID) error {
	begin := func() (*stet.Claim, error) {
		d, err := e.Begin(ctx, stet.Request{ID: id})
		if err == nil && d.Claim == nil {
			err = fmt.Errorf("the verdict is %v", d.Verdict)
		}
		return d.Claim, err
	}
	first, err := begin()
	if err != nil {
		return err
	}
	first.Unknown("execution-timeout")
	if err := first.Settle(ctx, stet.Outcome{}); err != nil {
		return err
	}
	why := stet.Note{Who: "kim", Why: "no trace of it"}
	if _, err := e.Operator().Resolve(ctx, id, Of(ctx, e, id), stet.Resolution{Now: true}, why); err != nil {
		return err
	}
	second, err := begin()
	if err != nil {
		return err
	}
	if err := second.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("second")}}); err != nil {
		return err
	}
	first.Completed()
	if err := first.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("first")}}); !errors.Is(err, stet.ErrFenced) {
		return fmt.Errorf("the first execution settled: %w", err)
	}
	return nil
}
