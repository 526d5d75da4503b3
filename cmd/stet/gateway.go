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

func (c *gatewayCmd) Run(w *world, conf *config.Config) error {
	if conf.Upstream == "" {
		return failf(exitUsage, "no upstream is set; give --upstream URL, STET_UPSTREAM, or upstream: in the file")
	}
	if err := startable(conf); err != nil {
		return err
	}
	out := &lines{Writer: w.stderr}
	level, always := new(slog.LevelVar), newLog(out, slog.LevelInfo)
	own := newLog(out, level)
	defer log.SetOutput(log.Writer())
	log.SetOutput(quiet.Writer(own)) // net/http's Transport says there what an upstream sent unasked
	a := &app{conf: conf, log: own, level: level, always: always, ready: func(listen, admin string) {
		line := []any{"listen", listen, "admin", admin, "upstream", conf.Upstream, "store", storeName(conf),
			"version", versionText()}
		if conf.Admin.Socket != "" {
			line = append(line, "socket", conf.Admin.Socket)
		}
		always.Info("ready", line...) // scripts wait for this line
		tellSystemd("READY=1")
		if text := unguarded(&conf.Admin); text != "" {
			own.Warn(text)
		}
	}}
	a.reload = make(chan os.Signal, 1)
	signal.Notify(a.reload, syscall.SIGHUP)
	defer signal.Stop(a.reload)
	a.again = func() (*config.Config, error) { return c.load(w) }
	conf.Stamp()
	return a.serve(w)
}

// newLog logs JSON lines of a level and above.
func newLog(out io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
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
