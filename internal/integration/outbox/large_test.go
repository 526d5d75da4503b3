package outbox

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
)

// The largest message that the documents promise is delivered from every database as it is set up
// by default, and a larger one is refused before anything is written (K18).
func TestTheLargestMessage(t *testing.T) {
	payload := make([]byte, 16<<20-128<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(payload)
	m := outbox.Message{Topic: strings.Repeat("t", 255), Name: strings.Repeat("n", 255), OrderKey: strings.Repeat("o", 255), Payload: payload,
		Meta: map[string]string{"m": strings.Repeat("m", 1<<16-8)}, Record: outbox.Record{Life: time.UnixMicro(1),
			ID: stet.ID{Scope: stet.Scope(strings.Repeat("s", 1024)), Key: stet.Key(strings.Repeat("k", 1024))}}}
	on(t, func(t *testing.T, db *database) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		larger := m
		larger.Payload = append(bytes.Clone(payload), 0)
		if err := db.box.Add(t.Context(), tx, larger); !errors.Is(err, outbox.ErrMessage) {
			t.Errorf("a larger one: %v, want ErrMessage", err)
		}
		if err := db.box.Add(t.Context(), tx, m); err != nil {
			t.Fatal(errors.Join(err, tx.Rollback()))
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			if !bytes.Equal(d.Payload, payload) || len(d.Meta["m"]) != 1<<16-8 {
				t.Error("another one is delivered")
			}
			return outbox.Delivered()
		})
		w.Lease = 20 * time.Second
		until(t, w, 1)
	})
}
