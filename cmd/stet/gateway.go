package main

import (
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/internal/quiet"
)

type gatewayCmd struct{ settings }

// Help is what --help says below the flags.
func (gatewayCmd) Help() string {
	return `Without a configuration file every POST and PATCH needs an Idempotency-Key, and PUT and DELETE may have one. Records are kept in
stet.db, so that a restart loses nothing. The log goes to stderr as JSON lines; "ready" comes when requests are served.

SIGTERM ends it when what runs has finished, a second signal at once. SIGHUP reads the configuration file again.`
}

func (c *gatewayCmd) Run(w *world) error {
	conf, err := c.load(w)
	if err != nil {
		return err
	}
	if conf.Upstream == "" {
		return failf(exitUsage, "which API is behind the gateway? give --upstream URL, STET_UPSTREAM, or upstream: in the file")
	}
	if err := startable(conf); err != nil {
		return err
	}
	out := &lines{Writer: w.stderr}
	own := newLog(out, conf.LogLevel)
	defer log.SetOutput(log.Writer())
	log.SetOutput(quiet.Writer(own)) // net/http's Transport says there what an upstream sent unasked
	a := &app{conf: conf, log: own, ready: func(listen, admin string) {
		newLog(out, "info").Info( // whatever the level is: scripts wait for this line
			"ready", "listen", listen, "admin", admin, "upstream", conf.Upstream, "store", storeName(conf), "version", versionText())
	}}
	a.reload = make(chan os.Signal, 1)
	signal.Notify(a.reload, syscall.SIGHUP)
	defer signal.Stop(a.reload)
	a.again = func() (*config.Config, error) { return c.load(w) }
	return a.serve(w)
}

// newLog logs JSON lines of a level and above.
func newLog(out io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		panic("stet: an unchecked log level: " + err.Error())
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l}))
}

// lines makes the writes of several loggers one after the other.
type lines struct {
	mu sync.Mutex
	io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Writer.Write(p)
}
