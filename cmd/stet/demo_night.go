package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/operate"
)

// night is what has gone wrong before the demo says that it is ready. Its requests are real ones,
// to a gateway that is a process of its own, because only a process can be killed.
type night struct {
	api      *paymentsAPI
	upstream string // its URL
	dir      string
	run      string // begins all keys
}

const (
	cutOff = 14 // charges, when the gateway is killed
	taken  = 2  // of them, which the API has made without an answer
	// earlier is how many charges the API has made when the demo is ready: also the one that its
	// search does not find, and the one whose key is used again.
	earlier = taken + 2
)

// findings are the ids of what waits for a person.
type findings struct{ incident, dead, mismatch string }

// nightPause is the time between two looks at what should have happened.
const nightPause = 20 * time.Millisecond

// nightConf is what both gateways have in common. Its leases are short, so that what the first one
// leaves is unknown within seconds, and the API is asked once, so that a charge that was lost
// before is a dead letter at once. The API's search misses charges: that it has no trace of one is
// no proof.
const nightConf = `upstream: %q
store: { dsn: %q }
scope: { single_tenant: true }
policy: { lease_s: 2 }
routes: [{ match: POST /v1/charges, mode: required }]
reconcile: { interval_s: 0.1, max_probes: 1, probe: { url: "%s/v1/search?key={key}", settle_s: 0 } }
`

func (n *night) file() string { return filepath.Join(n.dir, "stet.db") }
func (n *night) conf() string { return filepath.Join(n.dir, "stet.yaml") }

// key names the charges: 1 to cutOff are the ones of the incident.
func (n *night) key(name string) string { return n.run + "-night-" + name }

// endDemo is how the demo ends: well, if it was asked to end.
func (n *night) endDemo(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// runFirstLife is the life of the first gateway.
func (n *night) runFirstLife(ctx context.Context) error {
	conf := fmt.Sprintf(nightConf, n.upstream, "sqlite:"+n.file(), n.upstream)
	if err := os.WriteFile(n.conf(), []byte(conf), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // kills the gateway
	var running sync.WaitGroup             // the gateway and its clients
	defer func() { cancel(); running.Wait() }()
	listen, at, err := n.gateway(ctx, &running)
	if err != nil {
		return err
	}
	asked, err := adminclient.New(adminclient.Config{Address: at})
	if err != nil {
		return err
	}
	defer asked.Close()
	if _, err := n.charge(ctx, listen, "lost", "amount=4200&crash=yes"); err != nil {
		return err
	}
	for i := range cutOff {
		running.Go(func() { _, _ = n.charge(ctx, listen, fmt.Sprint(i+1), under(i)) }) // the gateway dies with it
		if err := await(ctx, func() bool { return int(n.api.waiting.Load()) > i }); err != nil {
			return err
		}
	}
	return await(ctx, func() bool {
		lost, err := n.record(ctx, asked, "lost")
		return err == nil && lost.Escalated
	})
}

// under is the form of a charge that is under way when the gateway is killed.
func under(i int) string {
	return fmt.Sprintf("amount=%d&outage=%s", 1001+i, cmp.Or(ifTrue(i < taken, "after"), "before"))
}

// runAfterRestart is what the clients do when there is a gateway again: they ask for what they have not
// heard, and one of them takes a key for another request.
func (n *night) runAfterRestart(ctx context.Context, listen, at string) (*findings, error) {
	for i := range cutOff {
		err := await(ctx, func() bool {
			a, err := n.charge(ctx, listen, fmt.Sprint(i+1), under(i))
			return err == nil && a.Status == http.StatusConflict && strings.Contains(a.Body, "outcome-unknown")
		})
		if err != nil {
			return nil, err
		}
	}
	for _, form := range []string{"amount=1999", "amount=2999"} {
		if _, err := n.charge(ctx, listen, "twice", form); err != nil {
			return nil, err
		}
	}
	return n.look(ctx, at)
}

// look finds the ids, once the API has been asked about all of the incident, and people may decide.
func (n *night) look(ctx context.Context, at string) (*findings, error) {
	c, err := adminclient.New(adminclient.Config{Address: at})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f := &findings{}
	err = await(ctx, func() bool {
		list, err := c.Incidents(ctx, operate.IncidentQuery{})
		all := list.Incidents
		i := slices.IndexFunc(all, func(i operate.Incident) bool { return i.Cause == stet.CauseHolderGone })
		if err != nil || i < 0 || all[i].Probes["missing"] < all[i].Count {
			return false
		}
		f.incident = all[i].ID
		for i := range cutOff { // whose holder's lease would have been over by now, so that people may decide
			r, err := n.record(ctx, c, fmt.Sprint(i+1))
			if err != nil || r.Outlook == nil || r.Outlook.Release == nil || !r.Outlook.Release.May {
				return false
			}
		}
		return true
	})
	dead, err1 := n.record(ctx, c, "lost")
	twice, err2 := n.record(ctx, c, "twice")
	f.dead, f.mismatch = dead.ID, twice.ID
	return f, errors.Join(err, err1, err2)
}

// gateway starts the first gateway, which runs as long as ctx.
func (n *night) gateway(ctx context.Context, running *sync.WaitGroup) (listen, at string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, self, "gateway", "--config", n.conf(), "--listen", anyPort, "--admin", anyPort)
	cmd.Args[0] = os.Args[0]
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STET_") })
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", "", err
	}
	running.Go(func() { <-ctx.Done(); _ = cmd.Wait() }) // it was killed
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct{ Msg, Listen, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
			running.Go(func() { _, _ = io.Copy(io.Discard, out) })
			return "http://" + line.Listen, "http://" + line.Admin, nil
		}
		said.WriteString(lines.Text() + "\n")
	}
	return "", "", fmt.Errorf("the demo's first gateway did not start:\n%s", &said)
}

// charge asks for one, and returns what the client is told.
func (n *night) charge(ctx context.Context, gateway, name, form string) (crashpoint.Reply, error) {
	return crashpoint.Post(ctx, gateway+"/v1/charges", n.key(name), "application/x-www-form-urlencoded", form)
}

// record is that of a charge.
func (n *night) record(ctx context.Context, api *adminclient.Client, name string) (operate.Record, error) {
	return api.Record(ctx, operate.Name{Scope: "default", Key: n.key(name)})
}

// demoPatience is how long what the demo prepares may take; it takes two seconds.
const demoPatience = 30 * time.Second

// await looks until it is so.
func await(ctx context.Context, so func() bool) error {
	late := fmt.Errorf("the demo could not be prepared within %s: this machine is too slow for it", demoPatience)
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, late)
	defer cancel()
	for !so() {
		if !rest.For(ctx, nightPause) {
			return context.Cause(ctx)
		}
	}
	return nil
}
