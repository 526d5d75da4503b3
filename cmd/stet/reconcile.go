package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/reconcile"
)

// reconciler asks the upstream about unknown outcomes. It is nil where the configuration does not
// say how.
func reconciler(e *stet.Engine, c *config.Reconcile) (*reconcile.Reconciler, error) {
	if c.Probe.URL == "" {
		return nil, nil
	}
	header, err := probeHeader(c.Probe.HeadersFile)
	if err != nil {
		return nil, err
	}
	probe := reconcile.Probe{URL: c.Probe.URL, Method: c.Probe.Method, Header: header, Found: c.Probe.FoundStatus,
		Missing: c.Probe.MissingStatus, Status: c.Probe.Respond.Status}
	return &reconcile.Reconciler{Engine: e, Every: c.Interval.Duration(), MaxProbes: c.MaxProbes, Settle: settling(c),
		Resolver: probe.Resolve}, nil
}

// probeHeader reads one `Name: value` a line. The error names the line, and nothing that is in it.
func probeHeader(file string) (http.Header, error) {
	if file == "" {
		return nil, nil
	}
	const limit = 64 << 10
	text, err := config.ReadSecretFile(file, limit)
	if err != nil {
		return nil, failf(exitUsage, "reconcile.probe.headers_file: %w", err)
	}
	h := http.Header{}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || !canon.IsToken(name) ||
			strings.ContainsFunc(value, unicode.IsControl) {
			return nil, failf(exitUsage, "reconcile.probe.headers_file: line %d of %s is no header; write Name: value", i+1, file)
		}
		h.Add(name, value)
	}
	return h, nil
}

// settling is how long an attempt has to be over before silence is a proof.
func settling(c *config.Reconcile) time.Duration {
	if c.Probe.Settle == 0 {
		return stet.Never
	}
	return c.Probe.Settle.Duration()
}

// hook takes a provider's word, where the configuration has a secret for it.
func hook(e *stet.Engine, conf *config.Config) (http.Handler, error) {
	c := &conf.Reconcile.Webhook
	if c.SecretFile == "" {
		return nil, nil
	}
	text, err := config.ReadSecretFile(c.SecretFile, 64<<10)
	if err != nil {
		return nil, failf(exitUsage, "reconcile.webhook.secret_file: %w", err)
	}
	secrets := strings.Fields(string(text))
	if len(secrets) == 0 {
		return nil, failf(exitUsage, "reconcile.webhook.secret_file: %s is empty", c.SecretFile)
	}
	w := reconcile.Webhook{Engine: e, Secrets: secrets, ProblemBase: conf.ProblemBase}
	if err := w.Validate(); err != nil {
		return nil, failf(exitUsage, "reconcile.webhook.secret_file: %w", err)
	}
	return w, nil
}

// hookServer is the webhook's own listener.
type hookServer struct {
	*http.Server
	on net.Listener
}

func listenHook(address string, h http.Handler, log *slog.Logger) (*hookServer, error) {
	on, err := net.Listen("tcp", address)
	if err != nil {
		return nil, bindHint(fmt.Errorf("reconcile.webhook.listen: %w", err))
	}
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/reconcile", h)
	return &hookServer{&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		MaxHeaderBytes: gateway.AdminHeaderBytes,
		ErrorLog:       quiet.Logger(log)}, on}, nil
}

// run serves until ctx ends, and finishes what it was told by then.
func (s *hookServer) run(ctx context.Context, log *slog.Logger) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = s.Shutdown(last)
	})
	log.Info("notices are taken", "listen", s.on.Addr().String())
	if err := s.Serve(s.on); !errors.Is(err, http.ErrServerClosed) {
		log.Error("the webhook's listener ended", "error", err.Error())
	}
}
