// Command mutants checks the tests: it makes one change of a list after the other to the tree,
// and the test that the list names has to fail each time. Nothing in the tree is touched; the
// compiler is told to read another text in the place of a file.
//
//	go run ./internal/mutants             the whole list
//	go run ./internal/mutants -count 40   so many of it, chosen by -seed
//	go run ./internal/mutants -only TEXT  those whose entry holds the text
//
// A change that no test notices, that does not compile or that does not fit its file any more is
// a failure.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

//go:embed mutants.txt
var list []byte

func main() {
	count := flag.Int("count", 0, "so many, chosen by the seed; 0: all")
	seed := flag.Uint64("seed", 1, "which ones, with -count")
	only := flag.String("only", "", "those whose entry holds this text")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, os.Stdout, ".", list, *only, *count, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// check tries the list on the tree at root. That every entry fits its file is looked at even
// where few are tried.
func check(ctx context.Context, out io.Writer, root string, list []byte, only string, count int, seed uint64) error {
	all, err := parse("mutants.txt", list)
	if err != nil {
		return err
	}
	var failed int
	fail := func(m *mutant, why string) {
		failed++
		_, _ = fmt.Fprintf(out, "FAILED  %s: %s\n", m, why)
	}
	all = slices.DeleteFunc(all, func(m mutant) bool {
		_, err := m.changed(root)
		if err != nil {
			fail(&m, err.Error())
		}
		return err != nil || !strings.Contains(fmt.Sprint(m), only)
	})
	if count > 0 {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(count, len(all))]
	}
	t, err := newTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	for i := range all {
		began := time.Now()
		if why := t.try(ctx, &all[i]); why != "" {
			fail(&all[i], why)
		} else {
			_, _ = fmt.Fprintf(out, "caught  %s in %.1fs\n", &all[i], time.Since(began).Seconds())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of the list failed", failed)
	}
	_, _ = fmt.Fprintf(out, "%d changes, each noticed by its test\n", len(all))
	return nil
}
