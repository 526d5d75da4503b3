// Command stet is the gateway that makes HTTP requests safe to retry, and the tools of who runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/stet-dev/stet/cmd/internal/config"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	log.SetFlags(0)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // finish what runs
		second(signals, time.Now())
		log.Print("stet: ended at once by a second signal") // a gateway's log is its own by now
		os.Exit(int(exitError))
	}()
	os.Exit(int(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)))
}

// oneSignal is how far apart two signals are that mean two things: timeout(1) sends one to the
// process and one to its group, and a terminal's Ctrl-C may come both from it and from a wrapper.
const oneSignal = time.Second

// second returns at the first signal that comes more than oneSignal after the one at first.
func second(signals <-chan os.Signal, first time.Time) {
	for range signals {
		if time.Since(first) > oneSignal {
			return
		}
	}
}

// world is what a command may touch besides files and the network.
type world struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer // what stdout could not be written is an error in the end: see [remembering]
	// given are the flags of the command line, without those from the environment.
	given map[string]bool
	// terminal: a person reads stdout, and no program.
	terminal bool
	width    int // of the terminal, in characters; 0: there is none, or it does not say
}

// printf prints to stdout.
func (w *world) printf(format string, args ...any) error {
	return errorOf(fmt.Fprintf(w.stdout, format, args...))
}

// remembering keeps the first error of a writer, so that a command need not look for it after each
// line.
type remembering struct {
	io.Writer
	mu     sync.Mutex
	failed error
}

func (r *remembering) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = cmp.Or(r.failed, err)
	return n, err
}

func (r *remembering) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// run is the program without the process around it. It ends early when ctx does, as after SIGTERM.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) exit {
	printed := &remembering{Writer: stdout}
	w := &world{ctx: ctx, stdin: stdin, stdout: printed, stderr: stderr}
	if f, ok := stdout.(*os.File); ok && isTerminal(f) {
		w.terminal = true
		w.width, _, _ = term.GetSize(int(f.Fd()))
	}
	var err error
	if len(args) == 0 {
		err = w.printf("%s", story)
	} else {
		err = w.command(args)
	}
	if err = cmp.Or(printed.err(), err); err == nil { // what was printed is not whole, whatever it says
		return exitFine
	}
	if bad := (config.Errors)(nil); errors.As(err, &bad) { // places first, as compilers have them
		fmt.Fprintln(stderr, err)
	} else {
		fmt.Fprintln(stderr, "stet:", err)
	}
	return exitOf(err)
}
