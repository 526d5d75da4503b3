// Package crashpoint kills a program at every point at which it touches the world outside its
// process. The crash tests and examples/payments/chaos use it.
//
// [Points] counts the points that a process passes: before and after each statement of its database
// and each request to another server, and in the midst of both. What a process does between two
// points dies with it, so these are all the ways to crash there are. [OpenSQL] puts the points
// between package database/sql and a driver, and so around each statement of a store and each
// commit of its callers. [Points.Transport] puts them around HTTP requests.
//
// [Start] runs a program as a [Process], which serves with [Serve]. A first process is watched, to
// learn the names of the points. Each point then gets a process that dies there, and others that
// put right what it has left.
package crashpoint

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
)

// Points counts the points that a process passes while it is armed, and kills the process at one of
// them. The name of a point is what is done, where in it the point lies, and how often the process
// was there before. Concurrent work of another kind, such as heartbeats and polls, therefore does
// not rename it. The methods may be called concurrently.
type Points struct {
	Out    io.Writer // receives a line for each point; nil: none
	At     string    // the name of the point to die at; "": none
	Number int       // the number of the point to die at, counted from 1; 0: none

	mu    sync.Mutex
	armed bool
	count int
	seen  map[string]int
}

// Where a point lies.
const (
	Before = "before"
	// Pending is when a query was answered and its rows have not been read: SQLite commits a
	// statement that returns rows when the last of them has been.
	Pending = "rows to come"
	After   = "after"
)

// Arm begins to count: what a process does to start is not of interest.
func (p *Points) Arm() { p.set(true) }

// Disarm ends what Arm has begun.
func (p *Points) Disarm() { p.set(false) }

func (p *Points) set(armed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = armed
}

// Handler returns h, whose first request arms p.
func (p *Points) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.Arm(); h.ServeHTTP(w, r) })
}

// pass is one point. The process dies with the lock held, so that it passes no other point
// meanwhile.
func (p *Points) pass(what, where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return
	}
	if p.seen == nil {
		p.seen = map[string]int{}
	}
	what += ", " + where
	p.seen[what]++
	p.count++
	name := fmt.Sprintf("%s, %d", what, p.seen[what])
	if p.Out != nil {
		_, _ = fmt.Fprintln(p.Out, pointPrefix+name)
	}
	if name == p.At || p.count == p.Number {
		kill()
	}
}

// Around passes the point before a statement, and returns what passes the one after it.
func (p *Points) Around(statement string) (end func()) { return p.around(label(statement)) }

func (p *Points) around(what string) (end func()) {
	p.pass(what, Before)
	return func() { p.pass(what, After) }
}

// kill ends this process as kill -9 does: nothing is flushed. It does not return.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// What returns what is done at the point of this name, as short as people want it.
func What(name string) string {
	what, _, _ := strings.Cut(name, ", ")
	what, _, _ = strings.Cut(what, " (")
	return what
}

// First returns the name of the point before this is done for the first time.
func First(what string) string { return what + ", " + Before + ", 1" }

// IsBefore reports whether the point of this name lies before what is done.
func IsBefore(name string) bool { return strings.Contains(name, ", "+Before+", ") }

// IsAfter reports whether the point of this name lies after what is done.
func IsAfter(name string) bool { return strings.Contains(name, ", "+After+", ") }

// Apart leaves out each beginning that comes right after an end: nothing that others could see lies
// between them.
func Apart(all []string) (points []string) {
	for i, at := range all {
		if i == 0 || !IsBefore(at) || !IsAfter(all[i-1]) {
			points = append(points, at)
		}
	}
	return points
}

var values = regexp.MustCompile(`\b\d+\b|x'[0-9a-f]*'`)

// label names a statement by what it does to which table, and by a sum that tells it from other
// statements that do so. Values that some statements are written with differ from process to
// process, and are not part of the sum.
func label(statement string) string {
	words := strings.Fields(statement)
	name := strings.ToUpper(words[0])
	for i, w := range words[:len(words)-1] {
		if w := strings.ToUpper(w); w == "INTO" || w == "FROM" || w == "UPDATE" {
			table, _, _ := strings.Cut(strings.TrimRight(words[i+1], ",;"), "(")
			name += " " + table
			break
		}
	}
	if len(words) == 1 {
		return name
	}
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, values.ReplaceAllString(strings.Join(words, " "), "N"))
	return fmt.Sprintf("%s (%04x)", name, sum.Sum32()&0xffff)
}
