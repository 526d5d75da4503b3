package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/internal/tier"
)

// plant puts records into the store of that address, as another gateway would that still has it
// open: what one leaves that was killed does not wait for the sweeper.
func plant(t *testing.T, address string, heads ...stet.Head) {
	t.Helper()
	d, err := dsn.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), dsn.Serve)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range heads {
		h.ID = stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("k", i))}
		h.Version, h.Attempt, h.Route = stet.Version(i+1), 1, "default"
		if _, err := s.Create(t.Context(), stet.Record{Head: h}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// configured writes a configuration into the working directory.
func configured(t *testing.T, text string) (flag string) {
	t.Helper()
	if err := os.WriteFile("stet.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=stet.yaml"
}

// F: a gateway without requests ends what lapsed and what is over, one by one and many
// at once, in its own intervals, and says how many there are of each and how long the oldest
// unknown has waited.
func TestGatewayKeepsItsStore(t *testing.T) { // I10
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	for _, store := range []string{"sqlite:stet.db", "file:records"} { // a Reaper, and none
		ok := t.Run(store, func(t *testing.T) {
			t.Chdir(t.TempDir())
			const soon = time.Microsecond
			over := stet.Head{State: stet.Completed, Status: 201, DueIn: soon}
			plant(t, store, over, over, over,
				stet.Head{State: stet.Running, DueIn: soon, Rules: stet.Rules{Retain: time.Hour}},
				stet.Head{State: stet.Unknown, Escalated: true, DueIn: stet.Never},
				stet.Head{State: stet.Unknown, DueIn: stet.Never},
				stet.Head{State: stet.Completed, Status: 500, DueIn: time.Hour})
			gate := serve(t, "--upstream", upstream.URL, "--store", store,
				configured(t, "log_level: debug\nkeeper: { sweep_interval_s: 0.01, reap_interval_s: 0.01, reap_batch: 2 }\n"))
			gate.await(t, "swept and reaped", func(m map[string]float64) bool {
				return m[lapsed] == 1 && m["idem_reaped_total"] == 3
			})
			got := gate.await(t, "counted and watched", func(m map[string]float64) bool {
				_, counted := m[`idem_keys_active{state="expired"}`]
				_, asked := m[`idem_dead_letters{kind="outbox"}`]
				return counted && m["idem_unknown_oldest_age_seconds"] > 0 && asked == (store == "sqlite:stet.db")
			})
			if _, sized := got["idem_store_log_bytes"]; sized != (store == "sqlite:stet.db") { // B06
				t.Errorf("the size of the store's log is there: %v", sized)
			}
			messages, there := got[`idem_dead_letters{kind="outbox"}`]
			if there != (store == "sqlite:stet.db") || messages != 0 { // Y18
				t.Errorf("dead messages: %v, which are there: %v", messages, there)
			}
			const batch = `"msg":"keys absent","count":2`
			if text := gate.stderr.text(); store == "sqlite:stet.db" && !strings.Contains(text, batch) {
				t.Errorf("no batch of two, as the configuration has it:\n%s", text)
			}
			dead, failed := got[`idem_dead_letters{kind="unknown"}`], got[`idem_keys_active{state="failed"}`]
			if unknown := got[`idem_keys_active{state="unknown"}`]; dead != 1 || failed != 1 || unknown < 1 {
				t.Errorf("dead letters %v, failed %v, unknown %v", dead, failed, unknown)
			}
		})
		if !ok { // the other would wait as long for what does not come
			break
		}
	}
}

// lapsed counts what the sweeper of these tests finds.
const lapsed = `idem_lapsed_total{cause="lease-lapsed"}`

// The intervals are the configuration's: with long ones nothing happens that a clock of minutes
// would bring.
func TestKeeperSettingsReachTheLoops(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	t.Chdir(t.TempDir())
	plant(t, "sqlite:stet.db", stet.Head{State: stet.Completed, Status: 201, DueIn: time.Microsecond},
		stet.Head{State: stet.Running, DueIn: time.Microsecond, Rules: stet.Rules{Retain: time.Hour}})
	for _, c := range []struct{ settings, want, still string }{
		{"{ sweep_interval_s: 0.01, reap_interval_s: 3600 }", lapsed, "idem_reaped_total"},
		{"{ sweep_interval_s: 3600, reap_interval_s: 0.01 }", "idem_reaped_total", lapsed},
	} {
		gate := serve(t, "--upstream", upstream.URL, configured(t, "keeper: "+c.settings+"\n"))
		began := time.Now()
		got := gate.await(t, c.want, func(m map[string]float64) bool { return m[c.want] == 1 })
		tier.Took(t, c.want, time.Since(began), 8*time.Second) // the default begins with a pause
		if got[c.still] != 0 {
			t.Errorf("%s: %s is %v", c.settings, c.still, got[c.still])
		}
		gate.stop()
		if e := <-gate.ended; e != exitFine || strings.Contains(gate.stderr.text(), `"level":"ERROR"`) {
			t.Errorf("it ended with %d: %s", e, gate.stderr.text())
		}
	}
}
