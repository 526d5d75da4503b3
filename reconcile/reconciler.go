package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/fill"
	"github.com/stet-dev/stet/internal/foreign"
	"github.com/stet-dev/stet/internal/names"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
	"github.com/stet-dev/stet/maintenance"
)

// DefaultSettle is the default of [Reconciler].Settle.
const DefaultSettle = 5 * time.Minute

const (
	// After so many probes a record is a dead letter.
	defaultMaxProbes = 8
	// The pause after a probe without a result doubles from the first to the longest.
	firstPause, longestPause = 10 * time.Second, time.Hour
)

// Resolver finds out what became of an execution whose outcome is unknown: it asks the system that
// would have the effect. It is called by several goroutines, and ctx has a deadline. A Resolver
// that goes on for more than a second after that is left alone: it is not asked about the same
// record before it returns, and what it returns then is not used. An error or a panic means that
// the system could not tell, so that it is asked again. The error is logged, and kept in the
// history: it must hold no secret, such as the key.
type Resolver func(ctx context.Context, h stet.Head) (Finding, error)

// Finding is what a [Resolver] found out.
type Finding struct {
	Effect Effect // what became of the execution; the zero value is [Pending]
	// Response, with Happened, is the answer that retries get. If it is nil, they get the answer
	// that the handler gave too late to store it, which is kept with the record; without one the
	// record stays unknown.
	Response *stet.Response
	Kept     stet.Kept // how much of the answer Response holds; the zero value is all of it
	Evidence string    // for the history, such as the provider's id or a status; no secret
	Status   int       // of the HTTP answer that says so; 0 where there was none
}

// Effect is what is known of the effect of an execution.
type Effect uint8

const (
	// Pending means that it may still happen, or that it is not known: ask again.
	Pending Effect = iota
	// Happened means that it has happened.
	Happened
	// Missing means that there is no trace of it. That is no proof while the attempt may still be
	// under way (I14): it counts once the record has been idle for Settle.
	Missing
	// Voided means that it has not happened and cannot happen any more: the provider has cancelled
	// the attempt, or refuses its key from now on.
	Voided
	// GoesOn means that the resolver has ended the record's doubt by itself, and that the run goes
	// on: see Reconcile of package flow.
	GoesOn
)

var effectNames = [...]string{"pending", stet.FoundHappened, "missing", stet.FoundVoided, "goes-on"}

func (e Effect) String() string { return names.Of("Effect", effectNames[:], e) }

var findingBounds = bounds.For[Finding](
	bounds.Number("Effect", 0, int64(GoesOn)),
	bounds.Number("Response.Status", 200, 599),
	bounds.Number("Kept", 0, int64(stet.KeptStatus)),
	bounds.Number("Status", 100, 999).Or("0 for none", 0),
)

// Reconciler asks about unknown outcomes until they are known. After MaxProbes without a result a
// record becomes a dead letter, which people end. Before each probe it takes the record by
// compare-and-set, so that of any number of reconcilers one asks. A finding ends the record by the
// rules of [stet.Operator.Resolve]: neither Missing nor Voided frees a key whose handler gave an
// answer too late, or has not returned.
type Reconciler struct {
	Engine    *stet.Engine  // whose records are asked about; required
	Resolver  Resolver      // what is asked; required
	Who       string        // the name in the history; default "reconciler"
	Every     time.Duration // from one round to the next; 0 means 10 s
	Batch     int           // records per store call, at most [stet.MaxLimit]; 0 means [stet.DefaultLimit]
	MaxProbes int           // probes of one record; 0 means 8
	// Settle is how long a record has to be idle before Missing is a proof: longer than a call can
	// be under way. 0 means [DefaultSettle]; with [stet.Never] Missing is never a proof. A Settle
	// longer than [LastProbe] of MaxProbes is refused, because no probe would come so late.
	Settle  time.Duration
	Timeout time.Duration // of one probe; 0 means 10 s
	AtOnce  int           // probes at a time; 0 means 8
}

var reconcilerBounds = bounds.For[Reconciler](
	bounds.Duration("Every", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Batch", 1, stet.MaxLimit).OrDefault(),
	bounds.Number("MaxProbes", 1, bounds.Many).OrDefault(),
	bounds.Duration("Settle", bounds.Short, bounds.Long).OrDefault().Or("stet.Never, where a missing effect is never a proof", stet.Never),
	bounds.Duration("Timeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("AtOnce", 1, bounds.Many).OrDefault(),
)

// Run reconciles until ctx ends, and then returns nil. Any other error is that of a setting that
// cannot be used.
func (r Reconciler) Run(ctx context.Context) error { return maintenance.Run(ctx, r) }

// Rounds implements [maintenance.Loop].
func (r Reconciler) Rounds() (maintenance.Rounds, error) {
	r, err := r.filled()
	return maintenance.Rounds{Every: r.Every, Batch: r.Batch, MaxBatch: stet.MaxLimit, Do: r.round}, err
}

// filled returns r with its defaults, or what cannot be used.
func (r Reconciler) filled() (Reconciler, error) {
	switch {
	case r.Engine == nil || r.Resolver == nil:
		return r, errors.New("reconcile: a Reconciler needs an Engine and a Resolver")
	}
	if err := reconcilerBounds.Check(&r); err != nil {
		return r, err
	}
	settle := r.Settle
	r = fill.Or(r, Reconciler{Who: "reconciler", Every: 10 * time.Second, Batch: stet.DefaultLimit, MaxProbes: defaultMaxProbes,
		Settle: DefaultSettle, Timeout: 10 * time.Second, AtOnce: 8})
	if last := LastProbe(r.MaxProbes); settle > last {
		return r, fmt.Errorf("reconcile: Settle is %s, but the last of %d probes comes %s after the attempt ended: "+
			"Missing would never be a proof; lower Settle or raise MaxProbes", r.Settle, r.MaxProbes, last)
	}
	return r, nil
}

// round probes a page of what is due, and returns how many records it took. A record that cannot be
// taken, because it is held or damaged, does not keep the others waiting.
func (r Reconciler) round(ctx context.Context, after string, limit int) (int, string, error) {
	if r.Engine.Foreign().Room(resolver) == 0 { // else probes would be counted that are never made
		return 0, "", stet.ErrHangs
	}
	heads, next, err := r.Engine.Operator().Unknowns(ctx, after, limit)
	if err != nil {
		return 0, "", err
	}
	workers := walk.NewWorkers(r.AtOnce)
	var taken atomic.Int64
	for i := range heads {
		workers.Go(ctx, func() {
			if r.Engine.Foreign().Room(resolver) == 0 {
				return
			}
			h, mine, err := r.take(ctx, &heads[i])
			if err != nil || !mine {
				return
			}
			taken.Add(1)
			if !h.Escalated {
				r.probe(ctx, h)
			}
		})
	}
	workers.Wait()
	return int(taken.Load()), next, ctx.Err()
}

// take counts the probe before it is made: a reconciler that dies while it asks leaves the record
// to the next one. A record whose probes are used up, also by one that was interrupted in this way,
// is given up: it becomes a dead letter.
func (r Reconciler) take(ctx context.Context, h *stet.Head) (stet.Head, bool, error) {
	var giveUp *stet.Note
	result := "scheduled"
	if h.Probes >= r.MaxProbes {
		giveUp = &stet.Note{Who: r.Who, Why: fmt.Sprintf("%d probes did not find out what became of it", h.Probes)}
		result = "failed"
	}
	got, mine, err := r.Engine.Operator().Probing(ctx, h, pause(h.Probes), giveUp)
	if mine {
		r.tell(&got, result)
	}
	return got, mine, err
}

// pause is the time from one probe to the next, after so many.
func pause(probes int) time.Duration { return rest.Doubled(firstPause, longestPause, probes) }

// LastProbe is how long after the first probe of a record the last of maxProbes is made, at the
// earliest. A longer Settle is over only when nothing is asked any more, so that Missing never
// counts.
func LastProbe(maxProbes int) (last time.Duration) {
	for probes := range maxProbes - 1 {
		next := pause(probes)
		if last > math.MaxInt64-next { // some hundred years
			return math.MaxInt64
		}
		last += next
	}
	return last
}

// probe asks, and ends what is found out. Whatever goes wrong, the record stays unknown: due
// again, or given up at once where this was the last probe.
func (r Reconciler) probe(ctx context.Context, h stet.Head) {
	a, err := r.question(ctx, &h, stet.Note{Who: r.Who})
	switch {
	case a.Ended:
		r.tell(&h, "resolved")
		return
	case ctx.Err() != nil: // it was interrupted
		return
	case err != nil:
		r.Engine.Observe(stet.Event{Kind: stet.ProbeFailed, ID: h.ID, Route: h.Route, TraceID: h.TraceID,
			Attempt: h.Attempt, Err: err})
	}
	now, err := r.leave(ctx, &h, &a.Answer, nil) // the record is unknown with it or without it
	if err == nil && now.Probes >= r.MaxProbes {
		_, _, _ = r.take(ctx, &now) // where that fails, the next walk does it
	}
}

// question asks, for as long as a probe may take, and ends the record with what is found out.
func (r Reconciler) question(ctx context.Context, h *stet.Head, asked stet.Note) (a Asked, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	began := time.Now()
	a.Head = *h
	a.Finding, err = r.ask(ctx, *h)
	a.Answer = answerTo(&a.Finding, err, time.Since(began))
	if err != nil {
		return a, err
	}
	a.Head, a.Ended, err = r.conclude(ctx, h, &a.Finding, asked)
	return a, err
}

// conclude ends the record with what the finding proves, if it proves anything, in the name of who
// had asked, and because of why.
func (r Reconciler) conclude(ctx context.Context, h *stet.Head, f *Finding, asked stet.Note) (stet.Head, bool, error) {
	if f.Effect == GoesOn {
		return *h, true, nil
	}
	for now := *h; ; {
		res, proof, err := r.ruling(ctx, &now, f)
		if proof == "" || err != nil {
			return now, false, err
		}
		note := stet.Note{Who: asked.Who, Why: proof, Evidence: f.Evidence, Notice: asked.Notice}
		if asked.Why != "" {
			note.Why += "; asked now: " + asked.Why
		}
		if last, _ := now.LastProbe(); f.Effect == Voided && last.Found == stet.FoundHappened { // the last that is for good counts
			if now, err = r.Engine.Operator().Probed(ctx, &now, answerTo(f, nil, 0), nil); err != nil {
				return now, false, err
			}
		}
		of := stet.Execution{Fence: now.Fence(), Version: now.Version}
		got, err := r.Engine.Operator().Resolve(ctx, h.ID, of, res, note)
		if !errors.Is(err, stet.ErrStale) || !lookedAt(&now, &got) {
			return got, err == nil, err
		}
		now = got // an operator snoozed it or handed it over, which takes nothing from the finding
	}
}

// lookedAt reports whether all that was changed of an unknown record is who looks at it.
func lookedAt(was, is *stet.Head) bool {
	return is.State == stet.Unknown && was.State == stet.Unknown && is.Version != was.Version && is.Fence() == was.Fence() &&
		is.Cause == was.Cause && is.Point == was.Point && is.Probes == was.Probes && is.Escalated == was.Escalated &&
		is.Published == was.Published && is.Status == was.Status && is.Size == was.Size && is.Took == was.Took && is.Late().Equal(was.Late())
}

// resolver is the kind of the calls that are made here: see package foreign.
const resolver = "resolver"

// ask calls the resolver. A panic of it, or that it hangs, ends this probe alone.
func (r Reconciler) ask(ctx context.Context, h stet.Head) (Finding, error) {
	f, err := foreign.Do(ctx, r.Engine.Foreign(), foreign.About{Kind: resolver, Of: h.ID},
		func(ctx context.Context) (Finding, error) { return r.Resolver(ctx, h) })
	if err == nil {
		err = findingBounds.Check(&f)
	}
	return f, err
}

// ruling is what a finding proves, and why; nothing has no why.
func (r Reconciler) ruling(ctx context.Context, h *stet.Head, f *Finding) (stet.Resolution, string, error) {
	var res stet.Resolution
	idle := h.Idle()
	switch {
	case f.Effect == Happened && f.Response != nil:
		res.Response, res.Kept, res.Substitute = f.Response, f.Kept, true
		return res, "the effect was found", nil
	case f.Effect == Happened:
		return r.late(ctx, h)
	case f.Effect == Voided:
		return res, "the attempt was voided", nil
	case f.Effect == Missing && r.Settle != stet.Never && idle >= r.Settle:
		if last, _ := h.LastProbe(); last.Found == stet.FoundHappened {
			return res, "", nil
		}
		return res, fmt.Sprintf("no trace of it %s after the attempt ended", idle.Truncate(time.Second)), nil
	}
	return res, "", nil
}

// late rules that the answer which came too late is the record's.
func (r Reconciler) late(ctx context.Context, h *stet.Head) (stet.Resolution, string, error) {
	var res stet.Resolution
	have, err := r.Engine.Get(ctx, h.ID)
	if err != nil || have.Version != h.Version || have.Response == nil {
		return res, "", err
	}
	return adopted(&have), "the effect was found; the answer is the one that came too late", nil
}

func (r Reconciler) tell(h *stet.Head, result string) {
	r.Engine.Observe(stet.Event{Kind: stet.Probed, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt, Result: result})
}

// ErrNoAnswer is returned when a [Resolver] could not tell: what it asks did not answer, or not as
// it should.
var ErrNoAnswer = errors.New("reconcile: the probe got no answer")

// Asked is what came of asking now.
type Asked struct {
	Finding Finding
	Answer  stet.LastProbe // the same as it is kept with a record that is still unknown
	Ended   bool           // the record is not unknown any more
	Head    stet.Head      // the record as it is now
}

// Ask asks about one record now, for an operator: n's Who, Why and Notice. The record is unknown,
// due or not; a dead letter; or a run whose lease is over. A finding ends it by the same rules as
// in [Reconciler.Run]. The question is not counted as a probe and changes no plan: a dead letter
// about which nothing is found stays one. The history has it, with its [Answer]. h is the record as
// the caller has read it; if more of it has changed by the time of the answer than who looks at it,
// nothing is changed. The errors are [stet.ErrState], [ErrNoAnswer], those of
// [stet.Operator.Resolve], and that of a setting that cannot be used.
func (r Reconciler) Ask(ctx context.Context, h *stet.Head, n stet.Note) (Asked, error) {
	r, err := r.filled()
	if err != nil {
		return Asked{}, err
	}
	if !h.InDoubt() {
		return Asked{Head: *h}, fmt.Errorf("reconcile: %w: it is %s, not unknown", stet.ErrState, h.State)
	}
	r.tell(h, "scheduled")
	a, err := r.question(ctx, h, n)
	if a.Ended {
		r.tell(h, "resolved")
		return a, err
	}
	if a.Answer.Found == Silent {
		r.Engine.Observe(stet.Event{Kind: stet.ProbeFailed, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt, Err: err})
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	now, left := r.leave(ctx, h, &a.Answer, &stet.Note{Who: n.Who, Why: n.Why})
	if left == nil {
		a.Head = now
	}
	return a, cmp.Or(err, left) // the trail has to say that it was asked
}
