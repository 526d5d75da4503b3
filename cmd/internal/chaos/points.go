package chaos

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/stet-dev/stet/internal/crashpoint"
)

// points counts what a process does outside itself: statements of its database, and requests to the provider, before each of which
// it may die. What it does between two of them dies with it, so that these are all the ways to crash there are.
type points struct {
	mu    sync.Mutex
	armed bool
	out   io.Writer // a line for each
	at    int       // dies before this one, counted from 1; 0: never
	last  bool      // dies once that one has happened instead
	name  string    // dies before the first of this name
	count int
}

// arm begins to count: what a process does to start is not of interest. disarm ends it.
func (p *points) arm()    { p.set(true) }
func (p *points) disarm() { p.set(false) }

func (p *points) set(armed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = armed
}

// pass is called before something is done, and done is what to call after it. Neither returns at the point to die at.
func (p *points) pass(what string) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return func() {}
	}
	p.count++
	_, _ = fmt.Fprintln(p.out, pointPrefix+what)
	n := p.count
	if p.at == n && !p.last || p.name == what {
		crashpoint.Kill()
	}
	return func() {
		if p.at == n && p.last {
			p.mu.Lock() // and nobody comes past another
			_, _ = fmt.Fprintln(p.out, pointPrefix+"(after the last)")
			crashpoint.Kill()
		}
	}
}

const pointPrefix = "point "

// name is what a statement does, and to which table.
func name(statement string) string {
	words := strings.Fields(statement)
	verb := strings.ToUpper(words[0])
	for i, w := range words[:len(words)-1] {
		switch w := strings.ToUpper(w); {
		case w == "INTO", w == "FROM", w == "UPDATE":
			table, _, _ := strings.Cut(strings.TrimRight(words[i+1], ",;"), "(")
			return verb + " " + table
		}
	}
	return verb
}
