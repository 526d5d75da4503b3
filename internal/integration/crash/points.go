package crash

import (
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/stet-dev/stet/internal/crashpoint"
)

// points counts what a life comes past, writes it down, and ends the life at one of them.
type points struct {
	mu    sync.Mutex
	armed bool
	seen  map[string]int
	at    string   // where to die; "" is nowhere
	count int      // of all; the life ends at the one numbered after
	after int      // 0 is nowhere
	trace *os.File // a line for each; nil for none
}

// arm begins to count: a program that dies while it starts has not begun to do anything.
func (p *points) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = true
}

// pass is one point. There is no way back from the one it dies at: nobody comes past another, since the lock is held.
func (p *points) pass(what, where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return
	}
	what += ", " + where
	p.seen[what]++
	p.count++
	name := fmt.Sprintf("%s, %d", what, p.seen[what])
	if p.trace != nil {
		_, _ = fmt.Fprintln(p.trace, name)
	}
	if name == p.at || p.count == p.after {
		crashpoint.Kill()
	}
}

// Where a point lies. What returns rows has one more, before they have been read.
const before, pending, after = "before", "rows to come", "after"

var (
	spaces = regexp.MustCompile(`\s+`)
	values = regexp.MustCompile(`\b\d+\b|x'[0-9a-f]*'`)
)

const longest = 60

// label is the name of a statement, for people: its beginning, and a sum where there is more. Values that some statements
// are written with differ from life to life.
func label(query string) string {
	q := values.ReplaceAllString(spaces.ReplaceAllString(strings.TrimSpace(query), " "), "N")
	if len(q) <= longest {
		return q
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(q))
	return fmt.Sprintf("%s… (%04x)", q[:longest], sum.Sum32()&0xffff)
}
