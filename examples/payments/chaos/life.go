package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/examples/payments/service"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/outbox"
)

// life is one process of the show.
type life struct {
	Role   string
	File   string // the provider's ledger, or the database
	Far    string // URL of the provider
	Honour bool   // the provider heeds keys

	Alone bool   // api: without the loops that look after what crashes leave, so that the points are the request's own
	At    string // the point to die at: see [crashpoint.Points]
}

// Roles.
const (
	roleProvider  = "provider"
	roleAPI       = "api"
	roleWorker    = "worker"    // delivers one message, and ends
	roleCompleter = "completer" // goes on with one payment, and ends
)

// Times of the show. A crash is found out about after a lease, so that one is short; it has to
// outlast the pauses of a busy machine.
const (
	lease       = time.Second
	every       = 50 * time.Millisecond
	callTimeout = 500 * time.Millisecond
)

// live is the process, until in ends, so that it does not outlive the process that has started it.
// It writes to out where it listens, and which points it passes.
func (l life) live(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := crashpoint.Attach(ctx, in)
	defer cancel()
	if l.Role == roleProvider {
		return l.provide(ctx, out)
	}
	return l.work(ctx, out)
}

func (l life) provide(ctx context.Context, out io.Writer) error {
	ledger, err := provider.OpenLedger(l.File)
	if err != nil {
		return err
	}
	srv := provider.Server{Ledger: ledger, IgnoreKeys: !l.Honour}
	return errors.Join(crashpoint.Serve(ctx, out, srv.Handler()), ledger.Close())
}

func (l life) work(ctx context.Context, out io.Writer) (err error) {
	p := &crashpoint.Points{Out: out, At: l.At}
	db, err := crashpoint.OpenSQL("sqlite", service.DSN(l.File), p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	client := &http.Client{Transport: p.Transport(), Timeout: callTimeout}
	s, err := service.New(ctx, service.Config{DB: db, Provider: provider.Client{URL: l.Far, HTTP: client}, HonoursKeys: l.Honour,
		Lease: lease, Every: every})
	if err != nil {
		return err
	}
	defer func() { p.Disarm(); err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	switch {
	case l.Role == roleWorker:
		crashpoint.Ready(out, "")
		return deliver(ctx, s, p)
	case l.Role == roleCompleter:
		crashpoint.Ready(out, "")
		return complete(ctx, s, p)
	case l.Alone:
		return crashpoint.Serve(ctx, out, p.Handler(s.Handler()))
	}
	return crashpoint.Serve(ctx, out, s.Handler(), s.Run)
}

// deliver runs a worker until it has delivered one message.
func deliver(ctx context.Context, s *service.Service, p *crashpoint.Points) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := s.Worker(func(e outbox.Event) {
		if e.Result == string(outbox.Done) {
			p.Disarm()
			cancel()
		}
	})
	w.Concurrency = 1
	p.Arm()
	return w.Run(ctx)
}

// complete runs a completer once, when what its predecessor left is due.
func complete(ctx context.Context, s *service.Service, p *crashpoint.Points) error {
	if !rest.For(ctx, lease+every) {
		return nil
	}
	p.Arm()
	defer p.Disarm()
	_, err := s.Completer().Round(ctx)
	return err
}

// prepare makes a database.
func prepare(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", service.DSN(file))
	if err != nil {
		return err
	}
	return errors.Join(service.Migrate(ctx, db), db.Close())
}
