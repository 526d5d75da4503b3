package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("it waited for %s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("the context ended after a second, and it waited for %s", time.Since(began))
		}
		if For(ctx, 0) {
			t.Error("the context is over")
		}
	})
}
