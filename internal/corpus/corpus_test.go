package corpus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestCorpus runs every case on both faces. The names of its subtests hold what a case is of: -run
// '/C05/' for one finding.
func TestCorpus(t *testing.T) {
	for name, start := range faces {
		t.Run(name, func(t *testing.T) {
			all := load(t, name)
			if least := 150; len(all) < least {
				t.Errorf("%d cases; there were at least %d", len(all), least)
			}
			abreast(t, all, func(s *script) func(t *testing.T) {
				f := start(s.setup())
				defer f.stopLater(t)
				got := f.run(s)
				faults := append(check(s, got), f.reached(s)...)
				if stored := f.stored(); !slices.Equal(stored, sorted(s.keeps)) {
					faults = append(faults, fault("stored", strings.Join(sorted(s.keeps), "; "), strings.Join(stored, "; ")))
				}
				return func(t *testing.T) {
					if len(faults) > 0 {
						t.Errorf("%s\n%s", strings.Join(faults, "\n"), transcript(s, got, f.rec.seen()))
					}
				}
			})
		})
	}
}

// abreast runs the cases beside one another, and reports them in order.
func abreast(t *testing.T, all []script, run func(s *script) (report func(t *testing.T))) {
	const workers = 16
	reports := make([]chan func(*testing.T), len(all))
	for i := range reports {
		reports[i] = make(chan func(*testing.T), 1)
	}
	next := make(chan int, len(all))
	for i := range all {
		next <- i
	}
	close(next)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for i := range next {
				func() {
					defer close(reports[i])
					reports[i] <- run(&all[i])
				}()
			}
		})
	}
	for i := range all {
		t.Run(all[i].name, func(t *testing.T) {
			if report := <-reports[i]; report != nil {
				report(t)
			}
		})
	}
	running.Wait()
}

// stopLater stops a face beside the test: a server takes its time to say goodbye.
func (f *face) stopLater(t testing.TB) {
	stopped := make(chan struct{})
	go func() { defer close(stopped); f.stop() }()
	t.Cleanup(func() { <-stopped })
}

func sorted(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return lines
}

func fault(what, want, got string) string {
	return fmt.Sprintf("%s:\n    want %s\n    got  %s", what, show(want), show(got))
}

// check compares the answers with what the case expects.
func check(s *script, got []exchanged) (faults []string) {
	for i, d := range s.conns {
		for j, t := range d.turns {
			var replies []reply
			if j < len(got[i].replies) {
				replies = got[i].replies[j]
			}
			if want, have := statuses(t.answers), of(replies); want != have {
				faults = append(faults, fault(fmt.Sprintf("connection %d, turn %d: the answers", i+1, j+1), want, have))
				continue
			}
			for k, a := range t.answers {
				faults = append(faults, a.check(fmt.Sprintf("connection %d, turn %d, answer %d", i+1, j+1, k+1), &replies[k])...)
			}
		}
	}
	if last := len(s.conns) - 1; !s.conns[last].http2 && got[last].kept != s.kept {
		word := map[bool]string{true: "kept", false: "closed"}
		faults = append(faults, fault("the connection", word[s.kept], word[!s.kept]))
	}
	return faults
}

func statuses(answers []answer) string {
	var b strings.Builder
	for _, a := range answers {
		b.WriteString(" " + strings.TrimSuffix(a.status+" "+a.code, " "))
	}
	return b.String()
}

// of names replies as a case does.
func of(replies []reply) string {
	var b strings.Builder
	for _, r := range replies {
		b.WriteString(" " + r.status)
		if r.header.Get("Content-Type") == "application/problem+json" {
			var p struct{ Code string }
			_ = json.Unmarshal([]byte(r.body), &p)
			b.WriteString(" " + p.Code)
		}
	}
	return b.String()
}

func (a *answer) check(where string, r *reply) (faults []string) {
	for _, marker := range []string{"Idempotent-Replayed", "Idempotent-Replay"} {
		if got := r.header.Get(marker) == "true"; got != a.replay {
			faults = append(faults, fault(where+": "+marker, fmt.Sprint(a.replay), fmt.Sprint(got)))
		}
	}
	for _, rule := range a.rules {
		if body, ok := strings.CutPrefix(rule, "body "); ok && body != r.body {
			faults = append(faults, fault(where+": body", body, r.body))
		}
	}
	if a.broken != r.broken {
		faults = append(faults, fault(where+": broken off", fmt.Sprint(a.broken), fmt.Sprint(r.broken)))
	}
	return append(faults, messageFields(where, a.rules, r.header, r.trailer)...)
}

// messageFields checks the rules about a header, and those about a trailer.
func messageFields(where string, rules []string, header, trailer http.Header) []string {
	var own, late []string
	for _, rule := range rules {
		if rest, ok := strings.CutPrefix(rule, "trailer "); ok {
			late = append(late, rest)
		} else if rest, ok := strings.CutPrefix(rule, "no trailer "); ok {
			late = append(late, "no "+rest)
		} else if !strings.HasPrefix(rule, "body ") && !strings.HasPrefix(rule, "length ") {
			own = append(own, rule)
		}
	}
	return append(fields(where, own, header), fields(where+": trailer", late, trailer)...)
}

// fields checks the rules about a header.
func fields(where string, rules []string, h http.Header) (faults []string) {
	for _, rule := range rules {
		if name, ok := strings.CutPrefix(rule, "has "); ok {
			if len(linesOf(h, name)) == 0 {
				faults = append(faults, fault(where+": "+name, "a field of this name", "none"))
			}
			continue
		}
		if name, ok := strings.CutPrefix(rule, "no "); ok {
			if lines := linesOf(h, name); len(lines) > 0 {
				faults = append(faults, fault(where+": "+name, "no such field", strings.Join(lines, " | ")))
			}
			continue
		}
		name, value, _ := strings.Cut(rule, ": ")
		if lines := linesOf(h, name); len(lines) != 1 || lines[0] != value {
			faults = append(faults, fault(where+": "+name, value, strings.Join(lines, " | ")))
		}
	}
	return faults
}

// linesOf are the lines of a field, under whatever spelling a map has it.
func linesOf(h http.Header, name string) (lines []string) {
	for n, values := range h {
		if strings.EqualFold(n, name) {
			lines = append(lines, values...)
		}
	}
	return lines
}

// reached compares what the handler got.
func (f *face) reached(s *script) (faults []string) {
	seen := f.rec.seen()
	if len(seen) != s.runs {
		faults = append(faults, fault("runs", fmt.Sprint(s.runs), fmt.Sprint(len(seen))))
	}
	if n := f.rec.received.Load(); n > 0 && n != f.rec.probes.Load()+int64(len(seen)) {
		faults = append(faults, fault("requests that began at the upstream, without probes", fmt.Sprint(len(seen)), fmt.Sprint(n-f.rec.probes.Load())))
	}
	for i := range min(len(s.saw), len(seen)) {
		want, got := s.saw[i], &seen[i]
		where := fmt.Sprintf("run %d", i+1)
		if have := got.method + " " + got.target; have != want.request {
			faults = append(faults, fault(where, want.request, have))
		}
		for _, rule := range want.rules {
			word, rest, _ := strings.Cut(rule, " ")
			switch {
			case word == "body" && rest != got.body:
				faults = append(faults, fault(where+": body", rest, got.body))
			case word == "length" && rest != fmt.Sprint(got.length):
				faults = append(faults, fault(where+": length", rest, fmt.Sprint(got.length)))
			}
		}
		faults = append(faults, messageFields(where, want.rules, got.header, got.trailer)...)
	}
	return faults
}

// transcript is the case as it went, for people.
func transcript(s *script, got []exchanged, seen []recorded) string {
	var b strings.Builder
	for i, d := range s.conns {
		for j, t := range d.turns {
			for _, piece := range t.send {
				fmt.Fprintf(&b, "    > %s\n", show(piece))
			}
			if j < len(got[i].replies) {
				for _, r := range got[i].replies[j] {
					fmt.Fprintf(&b, "    < %s %v %s\n", r.status, r.header, show(r.body))
				}
			}
		}
		if !d.http2 {
			fmt.Fprintf(&b, "    %s\n", map[bool]string{true: "kept", false: "closed"}[got[i].kept])
		}
	}
	for _, r := range seen {
		fmt.Fprintf(&b, "    saw %s %s %v %s %v\n", show(r.method), show(r.target), r.header, show(r.body), r.trailer)
	}
	return b.String()
}
