// Payments: an API that charges, refunds and pays out through a provider, and does each once,
// whatever crashes.
//
//	go run . provider &                # a provider to experiment with: :4000, ./ledger.jsonl
//	go run . serve &                   # the API: :3000, its database is ./payments.db
//	curl -i localhost:3000/v1/payments -H 'Idempotency-Key: order-7-a1b2c3d4' \
//	  -d '{"reference":"order-7","amount":1999,"card":"drop"}'
//	curl -s localhost:4000/v1/effects  # what the provider has really done
//
// Kill either of them (kill -9) whenever you like, start it again, repeat the curl. Package service
// is what to read; package chaos kills it at every point in turn.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/examples/payments/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "provider" {
		return runProvider(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "serve" {
		return runService(ctx, args[1:])
	}
	return errors.New("say provider or serve")
}

func runProvider(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:4000", "address")
	path := flags.String("ledger", "ledger.jsonl", "the ledger's file")
	ignore := flags.Bool("ignore-keys", false, "do everything that is asked, known key or not")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ledger, err := provider.OpenLedger(*path)
	if err != nil {
		return err
	}
	srv := provider.Server{Ledger: ledger, IgnoreKeys: *ignore}
	return errors.Join(listenAndServe(ctx, *listen, srv.Handler()), ledger.Close())
}

func runService(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:3000", "address")
	path := flags.String("db", "payments.db", "the database's file")
	url := flags.String("provider", "http://127.0.0.1:4000", "URL of the provider")
	honours := flags.Bool("honours-keys", true, "the provider has one effect per key")
	lease := flags.Duration("lease", 5*time.Second, "how soon what a crash left behind is taken up")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", service.DSN(*path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := service.Migrate(ctx, db); err != nil {
		return err
	}
	s, err := service.New(ctx, service.Config{DB: db, HonoursKeys: *honours, Lease: *lease, Every: *lease / 10,
		Provider: provider.Client{URL: *url, HTTP: &http.Client{Timeout: 2 * time.Second}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	loops := make(chan error, 1)
	go func() { loops <- s.Run(ctx) }()
	err = listenAndServe(ctx, *listen, s.Handler())
	return errors.Join(err, <-loops)
}

// listenAndServe says where, and serves until ctx ends; what runs then may finish.
func listenAndServe(ctx context.Context, addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", "http://"+l.Addr().String())
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
