package blackbox

import (
	"bufio"
	"strings"
	"time"
)

// Words that several families use.

// opts is a request as a list of changes to the default.
func opts(o ...option) []option { return o }

// same demands that each of the others counts as the same request as the first one: it is replayed.
// The name keeps the pairs of one row apart.
func (c *C) same(name string, first []option, others ...[]option) {
	c.Helper()
	d := c.Named(name)
	a := d.POST("/fx/json", first...).First(201)
	for _, o := range others {
		d.POST("/fx/json", o...).Replays(a)
	}
	d.Effects(1)
}

// differ demands that each of the others counts as another request: refused, and the record stays
// what it is.
func (c *C) differ(name string, first []option, others ...[]option) {
	c.Helper()
	d := c.Named(name)
	a := d.POST("/fx/json", first...).First(201)
	for _, o := range others {
		d.POST("/fx/json", o...).Problem("key-reused")
		d.POST("/fx/json", first...).Replays(a)
	}
	d.Effects(1)
}

// bodies is one request per text.
func bodies(texts ...string) (all [][]option) {
	for _, text := range texts {
		all = append(all, opts(body(text)))
	}
	return all
}

// settled retries a request until it is neither running nor unknown, and returns that answer.
func (c *C) settled(retry func() *Answer) (a *Answer) {
	c.Helper()
	c.Until("the outcome is known", func() bool {
		a = retry()
		return a.Status != 409
	})
	return a
}

// lapsed retries a request until its lease is over, and returns the answer that says that the
// outcome is unknown.
func (c *C) lapsed(retry func() *Answer) (a *Answer) {
	c.Helper()
	c.Until("the lease is over", func() bool {
		a = retry()
		if a.Status != 409 {
			a.fail("want 409 until there is evidence")
		}
		return a.document().Code == "outcome-unknown"
	})
	return a
}

// marked demands a replay where there is no first response to compare with: its caller went away,
// or died.
func (a *Answer) marked(status int, text string) *Answer {
	a.c.Helper()
	return a.Is(status).Says(text).Has(replayed, "true").Has(replay, "true")
}

// goodFor demands that the result is kept for d from about now.
func (a *Answer) goodFor(d time.Duration) *Answer {
	a.c.Helper()
	const slack = 20 * time.Second // HTTP-dates have seconds, and a busy machine has pauses
	left := time.Until(a.Expires())
	if left < d-slack || left > d+slack {
		a.fail("good for %s, want about %s", left, d)
	}
	return a
}

// count sorts answers to equal requests: how many executed and how many were replayed. Others have
// to say in-progress.
func (c *C) count(answers []*Answer) (firsts, replays int) {
	c.Helper()
	for _, a := range answers {
		switch {
		case a.Status == 409:
			a.Problem("in-progress")
		case a.Header.Get(replayed) == "true":
			replays++
		default:
			a.First(201)
			firsts++
		}
	}
	return firsts, replays
}

// take reads n answers of a race.
func take(from <-chan *Answer, n int) (all []*Answer) {
	for range n {
		all = append(all, <-from)
	}
	return all
}

// block reads raw lines up to an empty one.
func block(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if err != nil || strings.TrimRight(line, "\r\n") == "" {
			return b.String(), err
		}
	}
}
