package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/cmd/internal/chaos"
	"github.com/stet-dev/stet/store/memstore"
)

// chaosDemo is stet demo --chaos. Its last line says what the provider has done. The records of all
// windows are on a console while it runs; where a person reads the table, until they have seen it.
func chaosDemo(w *world, dir, address string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "chaos-"); err != nil { // one that is kept may have been used before
		return err
	}
	fmt.Fprintln(w.stdout, "A payments API, its worker and its provider are processes. The API, or the worker, is killed before each statement and")
	fmt.Fprintln(w.stdout, "each call of the provider in turn, and started again; the client repeats its request with the same key until it has an answer.")
	shown := memstore.New(memstore.Config{})
	at, stop, err := chaosConsole(shown, address)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(w.stdout, "The console at %s/keys has the record of each, as the crash has left it and as it ends; this table is at %[1]s/audit?who=chaos.\n", at)
	began := time.Now()
	show := chaos.Show{Dir: dir, Out: w.stdout, Shown: shown, Self: func(life string) *exec.Cmd {
		return &exec.Cmd{Path: self, Args: []string{os.Args[0], "chaos-life", life}}
	}}
	total, err := show.Run(w.ctx)
	switch {
	case w.ctx.Err() != nil: // whatever else went wrong then
		return failf(exitError, "interrupted")
	case err != nil:
		return err
	}
	fmt.Fprintf(w.stdout, "\n%d kills in %s, lost: %d\n%s\n", total.Windows, time.Since(began).Round(time.Second),
		total.Lost, total.Sum())
	if total.Duplicates > 0 || total.Lost > 0 {
		return failf(exitError, "a payment was made twice, or lost")
	}
	if w.terminal {
		fmt.Fprintf(w.stdout, "The console stays at %s/keys. Ctrl-C ends it.\n", at)
		<-w.ctx.Done()
	}
	return nil
}

// chaosConsole serves the records of the show, which nothing else works on.
func chaosConsole(shown stet.Store, address string) (url string, stop func(), err error) {
	engine, err := stet.New(shown, stet.Config{})
	if err != nil {
		return "", nil, err
	}
	api := admin.New(engine, admin.Config{Title: "chaos"})
	return serveLocally(console.New(api, console.Config{}), address)
}

// lifeCmd is a process of that demo.
type lifeCmd struct {
	Life string `arg:""`
}

func (c *lifeCmd) Run(w *world) error {
	var l chaos.Life
	if err := json.Unmarshal([]byte(c.Life), &l); err != nil {
		return failf(exitUsage, "chaos-life is for stet demo --chaos alone")
	}
	return l.Live(w.ctx, w.stdin, w.stdout)
}
