package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/cmd/internal/config"
)

type demoCmd struct {
	Keep   string `placeholder:"DIR" help:"Keep the records in DIR; otherwise they are deleted at the end."`
	Listen string `placeholder:"ADDR" help:"Address that clients connect to (127.0.0.1:8080, or a free port)."`
	Admin  string `placeholder:"ADDR" help:"Address of the console (127.0.0.1:8081, or a free port)."`
}

// step is something to try: the command to paste and what it will show. Every promise is part of
// the command's output.
type step struct {
	say      string
	command  string
	promises []string
}

// steps of the demo.
func steps(gateway, admin, run string) []step {
	post := func(key int, form string) string {
		return fmt.Sprintf("curl -si %s/v1/charges -H 'Idempotency-Key: %s-%d' %s", gateway, run, key, form)
	}
	id := func(n int) string { return fmt.Sprintf(`"id":"ch_%d"`, earlier+n) }
	return []step{
		{"A charge with a key.", post(1, "-d amount=1999"),
			[]string{"201 Created", id(1)}},
		{"The client lost the answer and sends it again: the same bytes, and nothing is charged.", post(1, "-d amount=1999"),
			[]string{"201 Created", "Idempotent-Replayed: true", id(1)}},
		{"The same key for another amount is a mistake, and refused.", post(1, "-d amount=2999"),
			[]string{"422 Unprocessable Entity", "key-reused"}},
		{"A slow charge, and a retry while it runs: the retry is told to wait, the charge goes on.",
			strings.Replace(post(2, "-d amount=500 -d delay=3s"), "-si", "-s", 1) + " & sleep 1; " +
				post(2, "-d amount=500 -d delay=3s") + "; wait",
			[]string{"409 Conflict", "in-progress", "Retry-After:", id(2)}},
		{"The API crashes after it took the money: the outcome is unknown, and the client is told so.",
			post(3, "-d amount=700 -d crash=yes"),
			[]string{"502 Bad Gateway", "upstream-failed"}},
		{"A retry does not charge again: only evidence can end an unknown outcome.", post(3, "-d amount=700 -d crash=yes"),
			[]string{"409 Conflict", "outcome-unknown"}},
		{fmt.Sprintf("What was really charged: three charges for seven requests, after the %d that were there.", earlier),
			fmt.Sprintf("curl -s %s/v1/charges", gateway), []string{fmt.Sprintf(`"charges":%d`, earlier+3)}},
		{"What an operator sees: the one that needs a look. Keys are secrets, so records have ids.",
			fmt.Sprintf("curl -s '%s/api/v1/keys?state=unknown&cause=upstream-failed'", admin), []string{`"state":"unknown"`, `"id":"k_`}},
	}
}

func (c *demoCmd) Run(w *world) (err error) {
	dir := c.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "stet-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	n := &night{api: &paymentsAPI{}, dir: dir, run: "demo"}
	if c.Keep != "" {
		n.run = runName() // kept records do not answer for new ones
	}
	var stop func()
	if n.upstream, stop, err = serveLocally(n.api.handler(), anyPort); err != nil {
		return err
	}
	defer stop()
	listen, admin := c.address(w, "listen", c.Listen, "127.0.0.1:8080"), c.address(w, "admin", c.Admin, "127.0.0.1:8081")
	fmt.Fprintf(w.stdout, "A gateway in front of a sample payments API is killed while %d charges are under way …\n",
		cutOff)
	if err := n.runFirstLife(w.ctx); err != nil {
		return n.endDemo(w.ctx, err)
	}
	return c.serve(w, n, listen, admin)
}

// serve is the gateway that stays, and says ready once everything waits that should.
func (c *demoCmd) serve(w *world, n *night, listen, admin string) error {
	conf, err := config.Load(config.Options{File: n.conf(), Overrides: []config.Override{
		{Path: "listen", Value: listen},
		{Path: "admin.listen", Value: admin},
		{Path: "admin.title", Value: "demo"},
		{Path: "policy.lease_s", Value: "60"},
		{Path: "reconcile.max_probes", Value: "8"},
	}})
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(w.ctx)
	defer fail(nil)
	here := *w
	here.ctx = ctx
	told := make(chan struct{})
	a := &app{conf: conf, log: slog.New(slog.NewTextHandler(w.stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	a.ready = func(listen, admin string) {
		go func() { // it serves when this has returned
			defer close(told)
			found, err := n.runAfterRestart(ctx, "http://"+listen, "http://"+admin)
			if err != nil {
				fail(err)
				return
			}
			c.explain(w.stdout, found, "http://"+listen, "http://"+admin, n)
		}()
	}
	if err := a.serve(&here); err != nil {
		return err
	}
	<-told
	return n.endDemo(w.ctx, context.Cause(ctx))
}

// address is where to listen: as it was asked for, else at the usual place, else on a free port.
func (c *demoCmd) address(w *world, flag, asked, usual string) string {
	if w.given[flag] {
		return asked
	}
	l, err := net.Listen("tcp", usual)
	if err != nil {
		fmt.Fprintf(w.stdout, "%s is in use, so the demo takes a free port; --%s chooses another.\n", usual, flag)
		return anyPort
	}
	_ = l.Close()
	return usual
}

// explain prints what waits, and what to paste. The word ready is its last line.
func (c *demoCmd) explain(out io.Writer, found *findings, gateway, admin string, n *night) {
	fmt.Fprintf(out, `
The console is at %s/. This waits there:

  %-74s %s/unknown/%s
  %-74s %s/keys/%s
  %-74s %s/keys/%s

The API runs behind Stet at %s; paste these into another terminal.
`, admin,
		fmt.Sprintf("%d charges with an unknown outcome: their gateway was killed", cutOff), admin, found.incident,
		"a dead letter: the API was asked about a charge, and does not know it", admin, found.dead,
		"a mismatch: a client has used one key for two requests", admin, found.mismatch, gateway)
	for _, s := range steps(gateway, admin, n.run) {
		fmt.Fprintf(out, "\n# %s\n$ %s\n→ %s\n", s.say, s.command, strings.Join(s.promises, " · "))
	}
	fmt.Fprintf(out, "\nThe records are in %s%s. Ctrl-C ends it.\nready\n", n.file(),
		ifTrue(c.Keep == "", ", and go with the demo (--keep DIR keeps them)"))
}

func runName() string { return "demo-" + strings.ToLower(rand.Text()[:8]) }

// anyPort is an address of this machine alone, with a port that is free.
const anyPort = "127.0.0.1:0"

// serveLocally serves h at the address until stop is called.
func serveLocally(h http.Handler, address string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, bindHint(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	return "http://" + l.Addr().String(), func() { _ = srv.Close(); serving.Wait() }, nil
}
