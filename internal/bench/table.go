package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table writes the rows as Markdown.
func table(rows []row, got results, before string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| work | goal | now | %s | now : before | |\n|---|---|---|---|---|---|\n", before)
	for _, r := range rows {
		a, z := got[[3]string{now, r.suite.bench, r.metric}], got[[3]string{then, r.suite.bench, r.metric}]
		pairs := ratios(a, z)
		ratio := median(pairs)
		measured, op, unit := median(a), "≥", ""
		if r.beside {
			measured, unit = ratio, "× before"
		}
		if r.most {
			op = "≤"
		}
		verdict := "held"
		switch {
		case measured == 0:
			verdict = "**not measured**"
		case r.most && measured > r.goal, !r.most && measured < r.goal:
			verdict = "**missed**"
		}
		fmt.Fprintf(&b, "| %s | %s %s %v%s | %s | %s | %s | %s |\n", r.work, r.metric, op, r.goal, unit,
			figure(median(a)), figure(median(z)), spread(ratio, pairs), verdict)
	}
	return b.String()
}

// spread is the median of some ratios with the least and the most of them.
func spread(median float64, pairs []float64) string {
	if len(pairs) < 2 {
		return figure(median)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(median), figure(slices.Min(pairs)), figure(slices.Max(pairs)))
}

// ratios compares turn with turn.
func ratios(a, z []float64) (all []float64) {
	for i := range min(len(a), len(z)) {
		if z[i] != 0 {
			all = append(all, a[i]/z[i])
		}
	}
	return all
}

// median is 0 where nothing was measured.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// figure keeps three digits, and shows what was not measured as such.
func figure(v float64) string {
	switch {
	case v == 0:
		return "—"
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
