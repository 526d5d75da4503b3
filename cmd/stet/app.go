package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/operate/fleet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// app is a running gateway: the store, the engine on it, the listeners, and the loops beside them.
type app struct {
	conf    *config.Config // in force
	started *config.Config // in force at the start: what a reload does not change is as it is there
	log     *slog.Logger
	level   *slog.LevelVar // of log; nil: it stays as it is
	always  *slog.Logger   // whatever that is
	ready   func(listen, admin string)
	reload  chan os.Signal                 // nil: never
	again   func() (*config.Config, error) // reads the configuration once more

	store   *dsn.Opened
	engine  *stet.Engine
	jobs    *operate.Jobs
	metrics *observe.Metrics
	board   *fleet.Board
	limits  *stethttp.Limits // one for all configurations: what was used up stays used up
	gate    atomic.Pointer[gateway.Gateway]
	server  *gateway.Server
	shown   certificates      // to clients
	secure  certificates      // to operators
	admins  exchanged         // serves operators
	signed  *console.Sessions // that operators have ended: a reload does not forget them
	waits   admin.Throttle    // of who shows wrong tokens: a reload ends none
	notices exchanged         // takes notices, where they have a listener of their own
	hook    *hookServer       // nil: none of its own
	watch   *storeWatch       // nil: nothing of it can change

	sweeper, reaper, reconciler, trimmer maintenance.Runner

	policy  atomic.Pointer[admin.Policy] // as published, of the configuration in force
	told    atomic.Pointer[told]         // what operators are told of it
	waiting []config.Change              // what the file has otherwise, and takes a restart
}

// serve runs until the world's context ends, and then until what was running has finished.
func (a *app) serve(w *world) (err error) {
	pepper, err := config.ReadSecret(a.conf.Store.PepperFile)
	if err != nil {
		return failf(exitUsage, "store.pepper_file: %w", err)
	}
	a.started, a.metrics = a.conf, observe.NewMetrics(versionText())
	if err := a.open(w.ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.store.Close()) }()
	a.watch = a.watched()
	if err := a.build(pepper); err != nil {
		return err
	}
	a.inherit(w.ctx)
	p, err := a.make(a.conf)
	if err != nil {
		return err
	}
	if err := a.listen(p); err != nil {
		return err
	}
	a.install(p)
	return a.run(w.ctx)
}

// inherit ends what a killed gateway has left in a store of this host alone, before its clients
// ask.
func (a *app) inherit(ctx context.Context) {
	n, err := a.engine.Operator().Inherit(ctx)
	if n > 0 {
		a.log.Warn("a gateway before this one was killed while requests ran: their outcome is unknown", "records", n)
	}
	if err != nil { // the sweeper tries it again
		a.log.Warn("what a gateway before this one has left could not be ended yet", "error", err.Error())
	}
}

// build makes the engine.
func (a *app) build(pepper []byte) (err error) {
	a.board = fleet.New(fleet.Config{Version: versionText(), Measures: a.measures(), Measured: a.metrics.Measured,
		Draining: func() bool { return a.server != nil && a.server.Draining() }})
	var log *observe.Log // names records as the engine does, which is quiet until there is one
	a.engine, err = stet.New(a.store.Store, stet.Config{StoreTimeout: a.conf.Store.Timeout.Duration(), Pepper: pepper,
		MaxUnstored: a.conf.Limits.MaxUnstoredBytes,
		Policy:      stet.Policy{Lease: a.conf.Policy.Lease.Duration()}, // of what no route has: bulk jobs
		Observe: func(e stet.Event) {
			a.metrics.Observe(e)
			a.board.Observe(e)
			log.Observe(e)
		}})
	if err != nil {
		return err
	}
	log = observe.NewLog(a.log, a.engine.Tag)
	a.metrics.Unstored(a.engine.Unstored)
	a.metrics.Upstream(a.upstream)
	a.jobs = operate.NewJobs()
	a.limits, a.signed = stethttp.NewLimits(a.conf.LimitsConfig()), console.NewSessions()
	return nil
}

// measures return the figures of the store as a whole.
func (a *app) measures() []fleet.Measure {
	if desk(a.store, nil) == nil {
		return observe.Measures(nil)
	}
	return observe.Measures(func(ctx context.Context, e *stet.Engine) (map[outbox.State]int64, error) {
		return desk(a.store, e).Counts(ctx)
	})
}

// announce tells metrics and /policy.json which routes there are.
func (a *app) announce(g *gateway.Gateway, conf *config.Config) {
	p := &admin.Policy{Scope: conf.ScopeText()}
	var names []string
	for _, r := range g.Routes() {
		p.Routes = append(p.Routes, admin.Route{Match: r.Match, Config: r.Config})
		names = append(names, r.Config.Route)
	}
	a.metrics.Routes(names...)
	a.policy.Store(p)
}

// listen binds the addresses.
func (a *app) listen(p *parts) (err error) {
	if own := a.conf.Reconcile.Webhook.Listen; own != "" {
		if a.hook, err = listenHook(own, &a.notices, a.log); err != nil {
			return err
		}
	}
	a.shown.set(p.certificates, "h2", "http/1.1")
	a.secure.set(p.operatorsTLS, "http/1.1")
	c := timeouts(a.conf)
	c.Listen, c.TLS, c.H2C = a.conf.Listen, a.shown.config(), a.conf.H2C
	c.Admin, c.AdminSocket, c.AdminTLS = a.conf.Admin.Listen, a.conf.Admin.Socket, a.secure.config()
	c.ReadHeaderTimeout, c.MaxHeaderBytes = a.conf.ReadHeaderTimeout.Duration(), a.conf.Limits.MaxRequestHeaderBytes
	c.Handler, c.AdminHandler, c.Log = p.gate, &a.admins, a.log
	a.server, err = gateway.NewServer(c)
	return bindHint(err)
}

// timeouts are those of the listeners that can change.
func timeouts(conf *config.Config) gateway.ServerConfig {
	return gateway.ServerConfig{ReadTimeout: conf.ReadTimeout.Duration(), WriteTimeout: conf.WriteTimeout.Duration(),
		DrainTimeout: drainTimeout(conf), DrainDelay: conf.DrainDelay.Duration()}
}

// bindHint adds what to do about an address that cannot be listened on.
func bindHint(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; --listen and --admin choose others, port 0 a free one", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; this machine has no such address: :8080 is every address it has, 127.0.0.1:8080 is for itself alone", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; ports under 1024 need a privilege: choose a higher one, or grant CAP_NET_BIND_SERVICE", err)
	}
	return err
}

// operators makes what serves the admin listener.
func (a *app) operators(conf *config.Config, asked *reconcile.Reconciler, notices http.Handler) (http.Handler, error) {
	tokens, err := adminTokens(&conf.Admin)
	if err != nil {
		return nil, err
	}
	api := admin.New(a.engine, admin.Config{
		Config: operate.Config{
			Title: conf.Admin.Title, TraceURL: conf.Console.TraceURL, Log: a.log,
			Settle: settling(&conf.Reconcile), Reconciler: asked, Jobs: a.jobs, Outbox: desk(a.store, a.engine),
			Figures: a.board.Figures, Asking: a.board.Asking, Health: a.health, Upstream: a.upstream,
			Warnings: func() []operate.Warning { return a.told.Load().warnings },
		},
		Settings: func() []admin.Setting { return a.told.Load().settings },
		Tokens:   tokens, Refused: a.metrics.LoginRefused, Throttle: &a.waits,
		Hosts: conf.Admin.Hosts, ProblemBase: conf.ProblemBase, Webhook: notices,
		Draining: func() bool { return a.server.Draining() },
		Unready:  a.watch.unready,
		Metrics:  a.metrics.Handler(),
		Policy:   func() admin.Policy { return *a.policy.Load() },
	})
	probe := &conf.Reconcile.Probe
	return console.New(api, console.Config{ProbeMethod: probe.Method, ProbeURL: probe.Shown(), Sessions: a.signed, Log: a.log}), nil
}

// maxTokens bounds admin.tokens_file, in bytes: some thousand tokens.
const maxTokens = 1 << 20

// adminTokens are who may ask. Without any, only connections over loopback may: the configuration
// has seen to that.
func adminTokens(c *config.Admin) (tokens []admin.Token, err error) {
	switch {
	case c.TokenFile != "":
		secret, err := config.ReadToken(c.TokenFile)
		if err == nil && len(secret) < c.MinTokenBytes {
			err = fmt.Errorf("the token in %s has %d bytes, and admin.min_token_bytes is %d; stet token new makes one", c.TokenFile, len(secret), c.MinTokenBytes)
		}
		if err != nil {
			return nil, failf(exitUsage, "admin.token_file: %w", err)
		}
		return []admin.Token{admin.NewToken("admin", string(secret), operate.Admin)}, nil
	case c.TokensFile != "":
		doc, err := config.ReadSecretFile(c.TokensFile, maxTokens) // hashes, which say nothing of tokens that are long and random
		if err == nil {
			tokens, err = admin.ParseTokens(doc)
		}
		if err != nil {
			return nil, failf(exitUsage, "admin.tokens_file: %w", err)
		}
	}
	return tokens, nil
}

// run serves, keeps the store tidy, and ends in order: first the clients, then the loops, then what
// the engine still writes.
func (a *app) run(ctx context.Context) error {
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	a.runAll(&running, loops, a.sweeper.Run, a.reaper.Run, a.reconciler.Run, a.trimmer.Run,
		func(ctx context.Context) error { return a.board.Run(ctx, a.engine) })
	if a.hook != nil {
		running.Go(func() { a.hook.run(loops, a.log) })
	}
	if a.watch != nil {
		running.Go(func() { a.watch.run(loops) })
	}
	running.Go(func() { a.reloads(loops) })
	working, stopJobs := context.WithCancel(ctx) // a job stops at once when the end is asked for: another gateway goes on with it
	var jobs sync.WaitGroup
	a.runAll(&jobs, working, a.jobs.Run)
	a.ready(a.server.Addr(), a.server.AdminAddr())
	for _, warning := range a.started.Warnings() {
		a.log.Warn(warning.Text, "setting", warning.Path)
	}
	tell := sync.OnceFunc(func() {
		a.log.Info("shutting down when what runs has finished; a second signal ends at once")
		tellSystemd("STOPPING=1")
	})
	untold := context.AfterFunc(ctx, tell)
	err := a.server.Run(ctx)
	if untold(); ctx.Err() != nil {
		tell() // in the log, the end begins before it is over
	}
	stopJobs()
	jobs.Wait()
	if n := a.engine.Abandon(context.WithoutCancel(ctx)); n > 0 {
		a.log.Warn("executions that still ran are unknown now", "executions", n)
	}
	stop()
	running.Wait()
	a.gate.Load().CloseIdle()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout(a.conf))
	defer cancel()
	drained := a.engine.Drain(last)
	if errors.Is(drained, stet.ErrHangs) { // of probes: their records are unknown with them or without them
		a.log.Warn("calls that have not returned are cut off", "calls", drained.Error())
	}
	if last.Err() != nil && drained != nil {
		err = errors.Join(err, fmt.Errorf("results could not be stored; their keys are unknown when their leases end: %w", drained))
	}
	a.log.Info("stopped")
	return err
}

func (a *app) loop(err error) {
	if err != nil {
		a.log.Error("a background loop could not start", "error", err.Error())
	}
}

// runAll runs loops until ctx ends. What they return is in the log by then.
func (a *app) runAll(group *sync.WaitGroup, ctx context.Context, loops ...func(context.Context) error) {
	group.Go(func() { _ = maintenance.Background{Loops: loops, Log: a.log}.Run(ctx) })
}

// shortestDrain is what a drain lasts at most in any case, as the gateway has it.
const shortestDrain = time.Minute

// drainTimeout is how long what runs may take to finish: as long as it may run at all, and what
// passes by, to be cut off.
func drainTimeout(conf *config.Config) time.Duration {
	longest := conf.Policy.ExecutionTimeout
	unlimited := longest == 0
	for i := range conf.Routes {
		t := conf.Routes[i].Policy.ExecutionTimeout
		longest, unlimited = max(longest, t), unlimited || t == 0
	}
	if unlimited {
		return 24 * time.Hour
	}
	return max(shortestDrain, max(longest, conf.UpstreamTimeout).Duration()+10*time.Second)
}

// maxKeyFile bounds the file of a certificate's key, in bytes.
const maxKeyFile = 1 << 20

// readTLS reads the files of a TLS section, and tells fail of each what is wrong with it, or nil.
func readTLS(section string, t *config.TLS, fail func(path string, err error)) *tls.Config {
	if t == nil {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: make([]tls.Certificate, 1)}
	certificate, errCert := os.ReadFile(t.CertFile)
	if errCert == nil && len(certificate) == 0 {
		errCert = fmt.Errorf("%s is empty", t.CertFile)
	}
	fail(section+".cert_file", errCert)
	key, err := config.ReadSecretFile(t.KeyFile, maxKeyFile)
	if err == nil && errCert == nil {
		if c.Certificates[0], err = tls.X509KeyPair(certificate, key); err != nil {
			err = fmt.Errorf("%s and %s are not a certificate and its key in PEM: %s", t.CertFile, t.KeyFile,
				strings.TrimPrefix(err.Error(), "tls: "))
		}
	}
	fail(section+".key_file", err)
	if t.ClientCAFile != "" {
		pem, err := os.ReadFile(t.ClientCAFile)
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if err == nil && !c.ClientCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no certificate in PEM", t.ClientCAFile)
		}
		fail(section+".client_ca_file", err)
	}
	return c
}

func loadTLS(section string, t *config.TLS) (c *tls.Config, err error) {
	c = readTLS(section, t, func(path string, fault error) {
		if err == nil && fault != nil {
			err = failf(exitUsage, "%s: %w", path, fault)
		}
	})
	return c, err
}
