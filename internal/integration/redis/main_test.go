package redis

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tag"
)

func draw() stet.Version { return stet.Version(rand.Uint64()>>1 | 1) }

// sample is a record as a first request makes it.
func sample(key string) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: stet.Key(key)}, Tag: tag.Text(rand.Uint64()), Version: draw(), State: stet.Running, Attempt: 1,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{1, 2, 3}}, Holder: "host:1", Route: "charges", Method: "POST", Path: "/v1/charges",
		Rules: stet.Rules{Retain: 24 * time.Hour}, DueIn: time.Minute}}
}

// completed is the next write of a record: its result.
func completed(r stet.Record, body string) (stet.Head, *stet.Body) {
	h := r.Head
	h.State, h.Version, h.Status, h.Size, h.DueIn = stet.Completed, draw(), 201, int64(len(body)), 24*time.Hour
	return h, &stet.Body{Response: &stet.Response{Status: 201, Body: []byte(body),
		Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}}}}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// patience is for writes that a replica is going to confirm, however busy the machine is.
const patience = time.Minute

// eventually calls f until it reports true. It fails the test after a minute.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t, time.Minute); !f(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not happen: " + what)
		}
	}
}
