package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/examples/payments/service"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/outbox"
)

// Life is one process of the show.
type Life struct {
	Role   string
	File   string // the provider's ledger, or the database
	Far    string // URL of the provider
	Honour bool   // the provider heeds keys

	Alone bool // api: without the loops that look after what crashes leave, so that the points are the request's own
	At    int  // dies there: see points
	Last  bool
	Name  string
}

// Roles.
const (
	roleProvider  = "provider"
	roleAPI       = "api"
	roleWorker    = "worker"    // delivers one message, and ends
	roleCompleter = "completer" // goes on with one payment, and ends
)

// Times of the show. A crash is found out about after a lease, so that one is short; it has to outlast the pauses of a busy machine.
const (
	lease       = time.Second
	every       = 50 * time.Millisecond
	callTimeout = 500 * time.Millisecond
)

// Live is the process, until in ends: it does not outlive whoever started it. It says on out where it listens, and which points
// it passes.
func (l Life) Live(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if l.Role == roleProvider {
		return l.provide(ctx, out)
	}
	return l.work(ctx, out)
}

func (l Life) provide(ctx context.Context, out io.Writer) error {
	ledger, err := provider.OpenLedger(l.File)
	if err != nil {
		return err
	}
	srv := provider.Server{Ledger: ledger, IgnoreKeys: !l.Honour}
	return errors.Join(serve(ctx, srv.Handler(), out), ledger.Close())
}

func (l Life) work(ctx context.Context, out io.Writer) (err error) {
	p := &points{out: out, at: l.At, last: l.Last, name: l.Name}
	db, err := crashpoint.OpenSQL("sqlite", service.DSN(l.File), p.statement)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	client := &http.Client{Transport: requests(p), Timeout: callTimeout}
	s, err := service.New(ctx, service.Config{DB: db, Provider: provider.Client{URL: l.Far, HTTP: client}, HonoursKeys: l.Honour,
		Lease: lease, Every: every})
	if err != nil {
		return err
	}
	defer func() { p.disarm(); err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	switch {
	case l.Role == roleWorker:
		return deliver(ctx, s, p)
	case l.Role == roleCompleter:
		return complete(ctx, s, p)
	case l.Alone:
		handler := s.Handler()
		return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.arm()
			handler.ServeHTTP(w, r)
		}), out)
	}
	loops := make(chan error, 1)
	go func() { loops <- s.Run(ctx) }()
	err = serve(ctx, s.Handler(), out)
	return errors.Join(err, <-loops)
}

// deliver runs a worker until it has delivered one message.
func deliver(ctx context.Context, s *service.Service, p *points) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := s.Worker(func(e outbox.Event) {
		if e.Result == string(outbox.Done) {
			p.disarm()
			cancel()
		}
	})
	w.Concurrency = 1
	p.arm()
	return w.Run(ctx)
}

// complete runs a completer once, when what its predecessor left is due.
func complete(ctx context.Context, s *service.Service, p *points) error {
	if err := pause(ctx, lease+every); err != nil {
		return nil
	}
	p.arm()
	defer p.disarm()
	_, err := s.Completer().Round(ctx)
	return err
}

// serve answers until ctx ends, and lets what runs finish.
func serve(ctx context.Context, h http.Handler, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, urlPrefix+"http://"+l.Addr().String())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return srv.Shutdown(grace)
}

const urlPrefix = "url "

// prepare makes a database.
func prepare(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", service.DSN(file))
	if err != nil {
		return err
	}
	return errors.Join(service.Migrate(ctx, db), db.Close())
}
