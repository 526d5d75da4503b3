package flow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/fill"
	"github.com/stet-dev/stet/internal/sqltx"
)

// Config configures a [Flow].
type Config[S any] struct {
	// Name identifies the flow in its records: it must not change between releases. Required.
	Name string
	// Engine guards the records. Required.
	Engine *stet.Engine
	// DB is the database of local phases, which holds the records too. A flow with local phases
	// needs DB or Begin.
	DB *sql.DB
	// Tx are the options of the transactions of DB; nil means the driver's defaults.
	Tx *sql.TxOptions
	// Begin begins the transactions of local phases instead of DB and Tx, if they are not those of
	// package database/sql: pgxstore.Begin returns one for pgx.
	Begin func(ctx context.Context) (stet.Transaction, error)
	// Answer makes the flow's result of the last state alone, so that a [Completer] stores the same
	// one as a request would. It must have no effects. Required.
	Answer func(s *S) stet.Response

	// Schema is the version of S, to be raised by a change after which old records cannot be read;
	// 0 means 1.
	Schema int
	// Upgrade makes a state of one that an older Schema has stored; nil means that a record of
	// another Schema is left alone, with [ErrRelease].
	Upgrade func(schema int, state []byte) (S, error)

	// Backoff is the pause before a suspended run goes on, doubled with each attempt up to 5 min;
	// 0 means 1 s.
	Backoff time.Duration
	// Attempts is how many runs of one record may be suspended or crash, until the outcome is
	// unknown; 0 means 20.
	Attempts int
}

var configBounds = bounds.For[Config[any]](
	bounds.Number("Schema", 1, bounds.Many).OrDefault(),
	bounds.Duration("Backoff", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Attempts", 1, bounds.Many).OrDefault(),
)

var settleBounds = bounds.Duration("Settle", bounds.Short, bounds.Long).Or("0 for no time at all", 0).
	Or("stet.Never, where not found is never a proof", stet.Never)

const (
	defaultBackoff = time.Second
	maxBackoff     = 5 * time.Minute
	defaultSettle  = 5 * time.Minute // of [Phase.Settle]; as with the reconciler of package reconcile
	localTries     = 4
	firstPause     = 5 * time.Millisecond // between tries of a local phase, doubled by each
)

// Flow is a sequence of named phases over a state S, which is stored as JSON. It is safe for
// concurrent use.
type Flow[S any] struct {
	cfg    Config[S]
	phases []Phase[S]
	points map[string]int
}

// New returns a Flow. The error names what cannot work: names that are empty or used twice, or
// local phases without a database or on a store that joins no transactions ([stet.Binder]).
func New[S any](c Config[S], phases ...Phase[S]) (*Flow[S], error) {
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	c = fill.Or(c, Config[S]{Schema: 1, Backoff: defaultBackoff, Attempts: 20})
	switch {
	case c.Name == "":
		return nil, errors.New("flow: Name is empty")
	case c.Engine == nil:
		return nil, errors.New("flow: Engine is nil")
	case c.Answer == nil:
		return nil, errors.New("flow: Answer is nil; a flow that nobody waits for has to be answered, too")
	case len(phases) == 0:
		return nil, errors.New("flow: there are no phases")
	case c.DB != nil && c.Begin != nil:
		return nil, errors.New("flow: there are both DB and Begin")
	}
	if c.DB != nil {
		c.Begin = sqltx.Begin(c.DB, c.Tx)
	}
	f := &Flow[S]{cfg: c, phases: phases, points: map[string]int{done: len(phases)}}
	_, binds := stet.As[stet.Binder](c.Engine.Store())
	for i, p := range phases {
		switch {
		case p.local == nil && p.foreign == nil:
			return nil, fmt.Errorf("flow: phase %q does nothing", p.name)
		case p.local != nil && !binds:
			return nil, fmt.Errorf("flow: phase %q is local, and the store joins no transactions", p.name)
		case p.local != nil && c.Begin == nil:
			return nil, fmt.Errorf("flow: phase %q is local, and there is no DB and no Begin", p.name)
		case p.local != nil && c.DB != nil && !p.takes((*sql.Tx)(nil)):
			return nil, fmt.Errorf("flow: phase %q takes another transaction than the *sql.Tx of DB", p.name)
		case p.local != nil && (p.honours || p.lookup != nil || p.settles):
			return nil, fmt.Errorf("flow: phase %q is local: HonoursKey, Lookup and Settle are for foreign ones", p.name)
		}
		if err := settleBounds.Check(int64(p.settle)); err != nil && p.settles {
			return nil, fmt.Errorf("flow: phase %q: %w", p.name, err)
		}
		for _, name := range append([]string{p.name}, p.was...) {
			if _, twice := f.points[name]; twice || name == "" {
				return nil, fmt.Errorf("flow: phase %d: the name %q is empty or taken", i+1, name)
			}
			f.points[name] = i
		}
	}
	return f, nil
}

// Errors with which a run ends early.
var (
	// ErrSuspended is returned when a run is not finished. It goes on at its recovery point with
	// the next request or a [Completer].
	ErrSuspended = errors.New("flow: suspended")
	// ErrUnknown is returned when a phase may have had its effect. No run goes on before there is
	// evidence.
	ErrUnknown = errors.New("flow: the outcome is unknown")
	// ErrRules is returned when the rules of the record do not let it be resumed.
	ErrRules = errors.New("flow: a flow needs records with OnLapse: stet.LapseResume")
)

// Do begins, runs and settles a flow for callers without HTTP. The state is stored with the
// reservation, as q.Keep, so that a [Completer] can finish what a crash interrupts at any point.
// The stored answer of an earlier run is returned without running anything.
//
// Retries are compared by q.Subject: give what the client asked for. Without a Subject they are
// compared by the fields that s had as JSON when the key was new. A later release may add fields,
// but a field that it renames, removes or encodes in another way makes its retries a mismatch. The
// operation that the key is for is the flow, by its Name, if q names none.
//
// When the run's time is over (see [stet.Claim.Hold]), ctx of the phase ends. While a foreign phase
// that ignores this still works, its outcome is unknown and no other run makes its call, unless it
// [Phase.HonoursKey]; when it returns, the flow goes on with what it said.
//
// The error is a [*stet.Refused] where the record allows no execution, [ErrOtherFlow] or
// [ErrRelease], with the record untouched, where this flow cannot go on with it, another of the
// package's, or infrastructure.
func (f *Flow[S]) Do(ctx context.Context, q stet.Request, s S) (stet.Response, error) {
	rules := f.cfg.Engine.Policy().Rules
	if q.Policy != nil {
		rules = q.Policy.Rules
	}
	if rules.OnLapse != stet.LapseResume {
		return stet.Response{}, ErrRules
	}
	d, cannot, err := f.begin(ctx, q, &s)
	switch {
	case err != nil:
		return stet.Response{}, err
	case cannot != nil:
		return stet.Response{}, cannot
	case d.Verdict == stet.Execute:
		return f.finish(ctx, d.Claim, s)
	case d.Verdict == stet.Replay && d.Record.Response != nil:
		return *d.Record.Response, nil
	}
	return stet.Response{}, &stet.Refused{Verdict: d.Verdict, RetryAfter: d.RetryAfter(30 * time.Second), Mismatch: d.Mismatch}
}

// errNotSettled is returned when the call of a phase was not found, but may still be on its way:
// see [Phase.Settle].
var errNotSettled = fmt.Errorf("flow: the call was not found, and may still arrive: %w", stet.ErrNotSettled)

// finish runs a claim that is the flow's own, and settles it.
func (f *Flow[S]) finish(ctx context.Context, c *stet.Claim, s S) (stet.Response, error) {
	r := &run[S]{f: f, c: c, s: s, ended: make(chan struct{})}
	defer close(r.ended)
	held := c.Hold(ctx, r) // a run whose time is over has the last word, unless its call does not return
	defer func() {
		if !r.returned && !r.suspended { // a panic, which goes on after this
			c.Unknown("panic")
			_ = c.Settle(ctx, stet.Outcome{})
		}
	}()
	answer, err := r.run(held)
	if r.suspended || r.lost {
		return answer, err
	}
	if err != nil && c.Stated() == 0 {
		c.Unknown("error")
	}
	serr := c.Settle(ctx, stet.Outcome{Response: answer})
	if errors.As(serr, new(*bounds.Error)) { // an answer that is none: the effects are there all the same
		c.Unknown("error")
		_ = c.Settle(ctx, stet.Outcome{})
	}
	if serr != nil {
		err = errors.Join(err, serr)
	}
	return answer, err
}

// Resume goes on with a record whose run was abandoned or suspended, without its client, and
// settles it. It is [stet.ErrState] where there is nothing to go on with, and [ErrOtherFlow]
// or [ErrRelease], with the record untouched, where this flow cannot.
func (f *Flow[S]) Resume(ctx context.Context, id stet.ID) (stet.Response, error) {
	have, err := f.cfg.Engine.Get(ctx, id)
	if err != nil {
		return stet.Response{}, fmt.Errorf("flow: resume: %w", err)
	}
	if err := f.knows(&have); err != nil {
		return stet.Response{}, err
	}
	d, err := f.cfg.Engine.Operator().Resume(ctx, id)
	if err != nil {
		return stet.Response{}, err
	}
	var none S // the run reads the record's
	return f.finish(ctx, d.Claim, none)
}

// Run runs a flow on a claim that its caller settles with the answer, such as a handler behind
// stethttp: the claim is [stet.ClaimFrom] of its context, and what ends ctx ends the flow before
// its next phase. s is the state to begin with; a run that resumes has its own. With [ErrUnknown]
// that is what the claim says by now, and the caller settles it. With [ErrSuspended] the claim is
// given up, and settling it is refused: behind stethttp the client is told then that the request is
// in progress, and when it goes on, whatever the handler writes. Where the caller's time runs out
// (see [stet.Claim.Hold]) and it settles the claim as unknown before the phase returns, unknown it
// stays: let flows have the time they need. Write the response as it is returned: a [Completer]
// would store the same one.
func (f *Flow[S]) Run(ctx context.Context, c *stet.Claim, s S) (stet.Response, error) {
	if c == nil {
		return stet.Response{}, errors.New("flow: Run needs a claim: the request was not guarded")
	}
	if c.Head().Rules.OnLapse != stet.LapseResume {
		c.NotExecuted("flow-rules")
		return stet.Response{}, ErrRules
	}
	return (&run[S]{f: f, c: c, s: s}).run(ctx)
}
