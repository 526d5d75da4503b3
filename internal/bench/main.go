// Command bench compares the speed of this tree with that of an earlier version. It builds the
// benchmarks of both, runs them in turns, so that a machine that is slow for a while is slow for
// both, and prints one table: the goal, this tree, the version before, and the ratio.
//
//	go run ./internal/bench                     every row of goals.txt
//	go run ./internal/bench -only SQLite        those rows whose name holds the text
//	go run ./internal/bench -before v0.1.0      beside another version
//	go run ./internal/bench -turns 9            more turns (5 unless told)
//
// Figures are medians over the turns, ratios are medians of each turn's ratio. A row without a
// figure before has a benchmark that the earlier version lacks. A goal that is missed is told in
// its row and does not fail the command; a benchmark that fails does.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

//go:embed goals.txt
var goals string

func main() {
	before := flag.String("before", "", "the version to compare with; that of goals.txt unless told")
	turns := flag.Int("turns", 5, "how often each benchmark runs in each version")
	only := flag.String("only", "", "rows whose name holds this text")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, ".", goals, *before, *only, *turns); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures the rows of a list in the tree at root and in the version before it.
func run(ctx context.Context, out io.Writer, root, list, before, only string, turns int) error {
	version, rows, err := parse(list)
	if err != nil {
		return err
	}
	if before == "" {
		before = version
	}
	var wanted []row
	for _, r := range rows {
		if strings.Contains(r.work, only) {
			wanted = append(wanted, r)
		}
	}
	trees, err := checkOut(ctx, root, before)
	if err != nil {
		return err
	}
	defer trees.close()
	got, failed := results{}, map[suite]error{} // what fails is left out, and the others are measured
	for turn := range turns {
		for _, s := range suites(wanted) {
			if failed[s] != nil {
				continue
			}
			fmt.Fprintf(os.Stderr, "turn %d of %d: %s %s\n", turn+1, turns, s.pkg, s.bench)
			for _, tree := range []string{now, then} {
				failed[s] = errors.Join(failed[s], trees.measure(ctx, tree, s, got))
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	_, err = io.WriteString(out, table(wanted, got, before))
	for _, s := range suites(wanted) {
		err = errors.Join(err, failed[s])
	}
	return err
}
