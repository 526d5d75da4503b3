package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/rest"
)

// client asks for one thing, and asks again with the same key until it has an answer.
type client struct {
	what, key, card string
	saw             []string // in order, repetitions once
}

const retryPause = 100 * time.Millisecond // Retry-After says more, but this client is in a hurry

// once sends the request; an error is a connection that broke.
func (c *client) once(ctx context.Context, url string) (crashpoint.Reply, error) {
	a, err := crashpoint.Post(ctx, url+"/v1/"+c.what, c.key, "application/json",
		fmt.Sprintf(`{"reference":%q,"amount":1999,"card":%q}`, c.key, c.card))
	saw := fmt.Sprint(a.Status)
	if err != nil {
		saw = "cut off"
	}
	if n := len(c.saw); n == 0 || c.saw[n-1] != saw {
		c.saw = append(c.saw, saw)
	}
	return a, err
}

var errNoAnswer = errors.New("no final answer came")

// insist asks until the answer is final.
func (c *client) insist(ctx context.Context, url string) (a crashpoint.Reply, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		a, err = c.once(ctx, url)
		if err == nil && a.Status != http.StatusConflict && a.Status < 500 {
			return a, nil
		}
		if !rest.For(ctx, retryPause) {
			return a, context.Cause(ctx)
		}
	}
	return a, errNoAnswer
}
