package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// client asks for one thing, and asks again with the same key until it has an answer.
type client struct {
	what, key, card string
	saw             []string // in order, repetitions once
}

// answer is what a client holds in the end.
type answer struct {
	status   int
	body     string
	replayed bool
}

const retryPause = 100 * time.Millisecond // Retry-After says more, but this client is in a hurry

// once sends the request; an error is a connection that broke.
func (c *client) once(ctx context.Context, url string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/"+c.what,
		strings.NewReader(fmt.Sprintf(`{"reference":%q,"amount":1999,"card":%q}`, c.key, c.card)))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Idempotency-Key", c.key)
	r.GetBody = nil // net/http must not repeat by itself what this client counts
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		c.note("cut off")
		return answer{}, err
	}
	defer func() { _ = w.Body.Close() }()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		c.note("cut off")
		return answer{}, err
	}
	c.note(fmt.Sprint(w.StatusCode))
	return answer{w.StatusCode, string(body), w.Header.Get("Idempotent-Replayed") != ""}, nil
}

func (c *client) note(what string) {
	if n := len(c.saw); n == 0 || c.saw[n-1] != what {
		c.saw = append(c.saw, what)
	}
}

var errNoAnswer = errors.New("no final answer came")

// insist asks until the answer is final.
func (c *client) insist(ctx context.Context, url string) (a answer, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		a, err = c.once(ctx, url)
		if err == nil && a.status != http.StatusConflict && a.status < 500 {
			return a, nil
		}
		if err := pause(ctx, retryPause); err != nil {
			return a, err
		}
	}
	return a, errNoAnswer
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
