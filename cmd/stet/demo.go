package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stet-dev/stet/cmd/internal/config"
)

type demoCmd struct {
	Chaos bool   `help:"Instead, crash a payments API at every possible point, and show what became of each payment."`
	Keep  string `placeholder:"DIR" help:"Keep the records in DIR; otherwise they are deleted at the end."`
}

// step is something to try: the command to paste and what it will show. Every promise is part of
// the command's output.
type step struct {
	say      string
	command  string
	promises []string
}

// steps of the demo. Each run has keys of its own, so that kept records do not answer for new ones.
func steps(gateway, admin, run string) []step {
	post := func(key int, form string) string {
		return fmt.Sprintf("curl -si %s/v1/charges -H 'Idempotency-Key: %s-%d' %s", gateway, run, key, form)
	}
	return []step{
		{"A charge with a key.", post(1, "-d amount=1999"),
			[]string{"201 Created", `"id":"ch_1"`}},
		{"The client lost the answer and sends it again: the same bytes, and nothing is charged.", post(1, "-d amount=1999"),
			[]string{"201 Created", "Idempotent-Replayed: true", `"id":"ch_1"`}},
		{"The same key for another amount is a mistake, and refused.", post(1, "-d amount=2999"),
			[]string{"422 Unprocessable Entity", "key-reused"}},
		{"A slow charge, and a retry while it runs: the retry is told to wait, the charge goes on.",
			strings.Replace(post(2, "-d amount=500 -d delay=3s"), "-si", "-s", 1) + " & sleep 1; " + post(2, "-d amount=500 -d delay=3s") + "; wait",
			[]string{"409 Conflict", "in-progress", "Retry-After:", `"id":"ch_2"`}},
		{"The API crashes after it took the money: nobody knows what happened, so the client is told just that.", post(3, "-d amount=700 -d crash=yes"),
			[]string{"502 Bad Gateway", "upstream-failed"}},
		{"A retry does not charge again: only evidence can end an unknown outcome.", post(3, "-d amount=700 -d crash=yes"),
			[]string{"409 Conflict", "outcome-unknown"}},
		{"What was really charged: three charges for seven requests.", fmt.Sprintf("curl -s %s/v1/charges", gateway),
			[]string{`"charges":3`}},
		{"What an operator sees: the one that needs a look. Keys are secrets, so records have ids.", fmt.Sprintf("curl -s '%s/api/v1/keys?state=unknown'", admin),
			[]string{`"state":"unknown"`, `"id":"k_`}},
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
	if c.Chaos {
		return chaosDemo(w, dir)
	}
	upstream, stop, err := serveLocally((&paymentsAPI{}).handler())
	if err != nil {
		return err
	}
	defer stop()
	conf, err := config.Load(config.Options{Overrides: []config.Override{
		{Path: "upstream", Value: upstream},
		{Path: "scope.single_tenant", Value: "true"},
		{Path: "store.dsn", Value: "sqlite:" + filepath.Join(dir, "stet.db")},
		{Path: "listen", Value: freeNear("127.0.0.1:8080")},
		{Path: "admin.listen", Value: freeNear("127.0.0.1:8081")},
	}})
	if err != nil {
		return err
	}
	a := &app{conf: conf, log: slog.New(slog.NewTextHandler(w.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	a.ready = func(listen, admin string) {
		c.explain(w.stdout, "http://"+listen, "http://"+admin, filepath.Join(dir, "stet.db"))
	}
	return a.serve(w)
}

// explain prints what to paste. The word ready is its last line.
func (c *demoCmd) explain(out io.Writer, gateway, admin, file string) {
	fmt.Fprintf(out, "A sample payments API runs behind Stet at %s; paste these into another terminal.\n", gateway)
	for _, s := range steps(gateway, admin, runName()) {
		fmt.Fprintf(out, "\n# %s\n$ %s\n→ %s\n", s.say, s.command, strings.Join(s.promises, " · "))
	}
	fmt.Fprintf(out, "\nThe records are in %s", file)
	if c.Keep == "" {
		fmt.Fprint(out, ", and go with the demo (--keep DIR keeps them)")
	}
	fmt.Fprint(out, ". Ctrl-C ends it.\nready\n")
}

func runName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails: see crypto/rand
	return "demo-" + hex.EncodeToString(b[:])
}

// serveLocally serves h on a free port of this machine until stop is called.
func serveLocally(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	return "http://" + l.Addr().String(), func() { _ = srv.Close(); <-done }, nil
}

// freeNear returns the address if its port is free, and otherwise one with a port the system will
// choose.
func freeNear(addr string) string {
	if l, err := net.Listen("tcp", addr); err == nil {
		_ = l.Close()
		return addr
	}
	host, _, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(host, "0")
}
