package outbox

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet/outbox"
)

// Whether a provider honours keys is the message's, also when the attempt ends with its process and
// a worker of other messages finds that out. Of a message of a former version it is not known.
func TestHonouringTravelsWithTheMessage(t *testing.T) { // K17
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "honours", KeyHonoured: true}, outbox.Message{Topic: "not"})
		former := "INSERT INTO stet_outbox (version, state, behind, attempt, scope, %[1]skey%[1]s, life, topic, name, order_key, downstream_key, " +
			"downstream_id, payload, meta, errors, created_at, updated_at, due_at) " +
			"VALUES (1, 'pending', 0, 0, '', '', 0, 'former', '', '', 'ob_former', '', 'x', '{}', '', 1, 1, 1)"
		db.exec(t, former, map[bool]string{true: "`"}[db.driver == "mysql"])
		// As workers leave them behind that have died.
		db.exec(t, "UPDATE stet_outbox SET state = 'running', attempt = 1, version = 98 + 2 * id, due_at = 1")
		want := map[string]outbox.State{"honours": outbox.Done, "not": outbox.Unknown, "former": outbox.Unknown}
		until(t, db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			if d.Topic != "honours" || !d.KeyHonoured {
				t.Errorf("%s is delivered again, honoured: %t", d.Topic, d.KeyHonoured)
			}
			return outbox.Delivered()
		}), 1)
		for _, m := range db.list(t) {
			if m.State != want[m.Topic] {
				t.Errorf("%s is %s", m.Topic, m.State)
			}
		}
		db.exec(t, "DELETE FROM stet_outbox")
		db.add(t, outbox.Message{Topic: "honours", KeyHonoured: true}, outbox.Message{Topic: "not"})
		w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Maybe(errors.New("cut")) })
		w.MaxAttempts = 2
		until(t, w, 3)
		want["honours"] = outbox.Dead
		for _, m := range db.list(t) {
			if m.State != want[m.Topic] {
				t.Errorf("after attempts without a result %s is %s", m.Topic, m.State)
			}
		}
	})
}
