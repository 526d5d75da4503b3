package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// row is a goal: a figure that a benchmark reports, or its ratio to the version before.
type row struct {
	work   string
	suite  suite
	metric string
	beside bool // the goal is about now : before
	most   bool // at most; else at least
	goal   float64
}

// suite is what one run of a test binary measures: the benchmark by its whole name, without the
// number of processors.
type suite struct{ pkg, bench, time string }

// parse reads goals.txt: the version to compare with, then a row a line, fields parted by "|".
func parse(list string) (before string, rows []row, err error) {
	n := 0
	for line := range strings.Lines(list) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if v, ok := strings.CutPrefix(line, "before "); ok {
			before = v
			continue
		}
		r, err := parseRow(line)
		if err != nil {
			return "", nil, fmt.Errorf("goals.txt:%d: %w", n, err)
		}
		rows = append(rows, r)
	}
	return before, rows, nil
}

func parseRow(line string) (row, error) {
	f := strings.Split(line, "|")
	if len(f) != 5 {
		return row{}, fmt.Errorf("%d fields, want work | package | benchmark, time | figure | goal", len(f))
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	bench, benchtime, _ := strings.Cut(f[2], " ")
	r := row{work: f[0], suite: suite{f[1], bench, benchtime}, metric: f[3]}
	op, number, ok := strings.Cut(f[4], " ")
	if ok {
		number, r.beside = strings.CutSuffix(number, "× before")
		r.most = op == "<="
		r.goal, _ = strconv.ParseFloat(number, 64)
	}
	if !ok || op != "<=" && op != ">=" || r.goal == 0 {
		return row{}, fmt.Errorf("the goal %q, want for example >= 1.8× before, or <= 14", f[4])
	}
	return r, nil
}

// suites are the runs that the rows need, each once.
func suites(rows []row) (all []suite) {
	for _, r := range rows {
		if !slices.Contains(all, r.suite) {
			all = append(all, r.suite)
		}
	}
	return all
}
