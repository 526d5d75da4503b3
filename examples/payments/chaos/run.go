package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/internal/crashpoint"
)

// show kills the processes of every scenario, and prints what became of each payment.
type show struct {
	dir  string // for databases and ledgers
	out  io.Writer
	self string // the program whose processes the lives are
}

// result is what came of it.
type result struct {
	Windows    int // that a process was killed in
	Effects    int // that the provider had
	Duplicates int
	Lost       int // promised to a client, and not done; or no final answer
}

// atOnce is how many windows are tried at a time: most of their time is waiting for leases to end.
const atOnce = 8

// run goes through all scenarios. An error means that the show itself failed.
func (s show) run(ctx context.Context) (total result, err error) {
	st := &stage{dir: s.dir, self: s.self, far: map[bool]string{}}
	defer st.running.Wait()
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	template := filepath.Join(s.dir, "empty.db")
	if err := prepare(ctx, template); err != nil {
		return total, err
	}
	st.template = template
	for honour, ledger := range map[bool]string{true: "honours-keys.jsonl", false: "ignores-keys.jsonl"} {
		p, err := st.start(ctx, life{Role: roleProvider, File: filepath.Join(s.dir, ledger), Honour: honour})
		if err != nil {
			return total, err
		}
		st.far[honour] = p.URL
	}
	for i, sc := range scenarios {
		r, err := s.scenario(ctx, st, i+1, sc)
		total.add(r)
		if err != nil {
			return total, fmt.Errorf("%s: %w", sc.title, err)
		}
	}
	return total, nil
}

func (r *result) add(o result) {
	r.Windows += o.Windows
	r.Effects += o.Effects
	r.Duplicates += o.Duplicates
	r.Lost += o.Lost
}

// scenario finds out how many windows there are, by a life that is let live, and then tries all of
// them.
func (s show) scenario(ctx context.Context, st *stage, number int, sc scenario) (total result, err error) {
	calm, err := st.try(ctx, sc, fmt.Sprintf("order-%d-calm", number), "")
	if err != nil {
		return total, err
	}
	total.add(calm.count())
	at := windows(calm.points)
	fmt.Fprintf(s.out, "\n%s: %d windows\n", sc.title, len(at))
	tableHead(s.out)
	outcomes := make([]chan outcome, len(at))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, atOnce)
	for i := range outcomes {
		outcomes[i] = make(chan outcome, 1)
	}
	wg.Go(func() {
		for i := range outcomes {
			free <- struct{}{}
			wg.Go(func() {
				defer func() { <-free }()
				o, err := st.try(ctx, sc, fmt.Sprintf("order-%d-%d", number, i+1), at[i])
				if err != nil {
					cancel(fmt.Errorf("window %d: %w", i+1, err))
				}
				outcomes[i] <- o
			})
		}
	})
	for i, o := range outcomes {
		got := <-o
		if ctx.Err() != nil {
			return total, context.Cause(ctx)
		}
		got.row(s.out, i+1)
		total.add(got.count())
	}
	return total, nil
}

// windows are the points to die at: before each thing that is done, and after the last.
func windows(points []string) (at []string) {
	for i, p := range points {
		if crashpoint.IsBefore(p) || i == len(points)-1 {
			at = append(at, p)
		}
	}
	return at
}

// outcome is what became of one window.
type outcome struct {
	points   []string // that the process passed
	killed   bool
	died     string // before what
	behind   string
	saw      []string
	effects  int
	resolved string
	wrong    error // what must not be
}

func (o outcome) count() (r result) {
	r.Effects, r.Duplicates = o.effects, max(0, o.effects-1)
	if o.killed {
		r.Windows = 1
	}
	if o.effects == 0 || o.wrong != nil {
		r.Lost = 1
	}
	return r
}

const columns = "%4s  %-32s  %-20s  %-28s  %7s  %s\n"

func tableHead(out io.Writer) {
	fmt.Fprintf(out, columns, "", "killed before", "left behind", "the client saw", "charged", "how it ended")
}

func (o outcome) row(out io.Writer, number int) {
	fmt.Fprintf(out, columns, fmt.Sprint(number), o.died, o.behind, strings.Join(o.saw, ", "), fmt.Sprint(o.effects), o.ending())
}

func (o outcome) ending() string {
	switch {
	case o.wrong != nil:
		return "WRONG: " + o.wrong.Error()
	case o.effects != 1:
		return "WRONG: " + o.resolved
	}
	return o.resolved
}

// stage is what all scenarios stand on.
type stage struct {
	dir, template string
	self          string
	running       sync.WaitGroup  // of processes
	far           map[bool]string // the providers, by whether they heed keys
}

// patience is for whatever should take far less.
const patience = 15 * time.Second

func (st *stage) start(ctx context.Context, l life) (*crashpoint.Process, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	p, err := crashpoint.Start(ctx, exec.Command(st.self, lifeWord, string(text)))
	if err != nil {
		return nil, err
	}
	st.running.Go(func() { p.Points() })
	if p.URL == "" && (l.Role == roleProvider || l.Role == roleAPI) {
		_, err := p.End(ctx)
		return nil, errors.Join(fmt.Errorf("the %s did not start", l.Role), err)
	}
	return p, nil
}

// try lets one request meet its fate, with a process that dies at a point; "": none.
func (st *stage) try(ctx context.Context, sc scenario, order, at string) (o outcome, err error) {
	file := filepath.Join(st.dir, order+".db")
	if err := copyFile(st.template, file); err != nil {
		return o, err
	}
	c := &client{what: sc.what, key: order, card: "ok"}
	if o.points, o.killed, err = st.die(ctx, sc, c, file, at); err != nil {
		return o, err
	}
	switch {
	case !o.killed:
		o.died = "(was not reached)"
	case crashpoint.IsAfter(at):
		o.died = "(after the last)"
	default:
		o.died = crashpoint.What(at)
	}
	before, err := look(ctx, file, order)
	if err != nil {
		return o, err
	}
	o.behind = before.behind(sc.then == roleWorker)
	next, err := st.start(ctx, st.life(sc, roleAPI, file))
	if err != nil {
		return o, err
	}
	defer next.Kill()
	after, a, err := st.finish(ctx, sc, c, next.URL, file)
	switch {
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case err != nil:
		o.wrong = err
	}
	o.saw, o.resolved = c.saw, sc.resolved(before, after, a)
	o.effects, err = st.charged(ctx, sc, order)
	return o, err
}

func (st *stage) life(sc scenario, role, file string) life {
	return life{Role: role, File: file, Far: st.far[sc.honour], Honour: sc.honour}
}

// die is the first life: a request is served, or what one has left is worked on, up to the point.
func (st *stage) die(ctx context.Context, sc scenario, c *client, file, at string) (points []string, killed bool, err error) {
	l := st.life(sc, roleAPI, file)
	l.Alone = true
	switch sc.then {
	case "":
		l.At = at
	case roleCompleter:
		l.At = crashpoint.First(crashpoint.Answer)
	}
	p, err := st.start(ctx, l)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if l.At != "" {
		_, _ = c.once(ctx, p.URL)
	} else if _, err := c.insist(ctx, p.URL); err != nil { // nothing dies here: on a busy machine a lease may end all the same
		return nil, false, fmt.Errorf("the api: %w", err)
	}
	killed, err = p.End(ctx)
	if err == nil && sc.then != "" {
		l.Role, l.At = sc.then, at
		if p, err = st.start(ctx, l); err != nil {
			return nil, false, err
		}
		killed, err = p.Wait(ctx)
	}
	if err != nil {
		return nil, false, fmt.Errorf("the %s: %w", l.Role, err)
	}
	return p.Points(), killed, nil
}

// finish is the second life: everything comes to its end, and a last retry is answered with the
// same.
func (st *stage) finish(ctx context.Context, sc scenario, c *client, api, file string) (l left, a crashpoint.Reply, err error) {
	so := func(l left) bool { return sc.what != "payouts" || l.message == "done" }
	if sc.absent {
		if l, err = look(ctx, file, c.key); err == nil && l.state != "" { // nothing can be done for a client that left no trace
			_, err = await(ctx, file, c.key, func(l left) bool { return l.state == "completed" || l.state == "retryable" })
		}
		if err != nil {
			return l, a, err
		}
	}
	if a, err = c.insist(ctx, api); err != nil {
		return l, a, err
	}
	if l, err = await(ctx, file, c.key, so); err != nil {
		return l, a, err
	}
	again, err := (&client{what: c.what, key: c.key, card: c.card}).insist(ctx, api)
	switch {
	case err != nil:
		return l, a, err
	case a.Status != http.StatusCreated:
		return l, a, fmt.Errorf("the client was told %d", a.Status)
	case again.Status != a.Status || again.Body != a.Body:
		return l, a, errors.New("the client was told two different answers")
	}
	return l, a, nil
}

// charged counts what the provider has done for the order.
func (st *stage) charged(ctx context.Context, sc scenario, order string) (int, error) {
	client := provider.Client{URL: st.far[sc.honour], HTTP: &http.Client{Timeout: 5 * time.Second}}
	all, err := client.Effects(ctx, url.Values{"reference": {order}})
	return len(all), err
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}
