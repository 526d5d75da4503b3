// Chaos kills the processes of the payments example, one at a time, at every point at which they
// touch their database or the provider:
//
//	go run ./examples/payments/chaos
//
// A table shows what each crash left behind, what the client saw, what the provider charged, and how
// the payment ended. The exit status is 1 if a payment was made twice, or lost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// lifeWord is the argument of a process of the show; a [life] follows it.
const lifeWord = "life"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) == 2 && args[0] == lifeWord {
		var l life
		if err := json.Unmarshal([]byte(args[1]), &l); err != nil {
			return err
		}
		return l.live(ctx, in, out)
	}
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	keep := flags.String("keep", "", "keep databases and ledgers in a new `directory` below this one; otherwise they are deleted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("it takes no arguments, and got %q", flags.Args())
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if *keep != "" {
		if err := os.MkdirAll(*keep, 0o700); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(*keep, "chaos-") // what is kept of earlier shows is in no one's way
	if err != nil {
		return err
	}
	if *keep == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	fmt.Fprintln(out, "A payments API, its worker and its provider are processes. The API, or the worker, is killed before each statement and")
	fmt.Fprintln(out, "each call of the provider in turn, and started again; the client repeats its request with the same key until it has an answer.")
	began := time.Now()
	total, err := show{dir: dir, out: out, self: self}.run(ctx)
	switch {
	case ctx.Err() != nil: // whatever else went wrong then
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	fmt.Fprintf(out, "\n%d kills in %s; effects: %d, duplicates: %d, lost: %d\n", total.Windows, time.Since(began).Round(time.Second),
		total.Effects, total.Duplicates, total.Lost)
	if total.Duplicates > 0 || total.Lost > 0 {
		return errors.New("a payment was made twice, or lost")
	}
	return nil
}
