package simulation

import (
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
	"pgregory.net/rapid"
)

// machine has the actions of histories, and the check between any two of them.
type machine struct{ w *world }

var keys = [...]string{"a", "b"}

func named(key string) stet.ID { return stet.ID{Scope: "s", Key: stet.Key(key)} }

var (
	policies = map[string]stet.Rules{"": {Retain: retain}, "refuse expired keys": {Retain: retain, KeepExpired: time.Hour},
		"resume": {Retain: retain, OnLapse: stet.LapseResume}, "re-execute": {Retain: retain, OnLapse: stet.LapseReexecute}}
	names  = rapid.SampledFrom([]string{"", "refuse expired keys", "resume", "re-execute"})
	losses = rapid.SampledFrom([][]loss{{}, {}, {request}, {reply}, {late}, {broken}, {reply, broken}, {late, broken}, {reply, reply},
		{none, reply}, {none, late}, {none, broken}, {again}, {again, again}, {none, again}, {again, reply}, {reply, again}, {none, reply, broken}, {none, late, broken}, {reply, late}})
	spans = rapid.SampledFrom([]time.Duration{beat, lease / 2, lease / 2, lease, lease, settle, retain, 24 * time.Hour})
)

// Check holds between any two actions.
func (m machine) Check(t *rapid.T) { // I16
	w := m.w
	after(time.Until(time.Now().Truncate(beat).Add(beat)))
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	changes, _, err := w.store.History(w.ctx, stet.HistoryQuery{Limit: stet.MaxLimit})
	changes = slices.DeleteFunc(changes, func(c stet.Change) bool { // which changes nothing
		return c.Note.Action == reconcile.ActionProbe
	})
	if err != nil || len(changes) != w.notes {
		t.Errorf("I16: the history has %d changes of %d, %v", len(changes), w.notes, err)
	}
}

// networkFaults begins an action that speaks to the store.
func (w *world) networkFaults(t *rapid.T) {
	losses := losses.Draw(t, "network faults")
	w.change(func() {
		w.losses, w.begun = losses, 0
		clear(w.calls)
	})
}

func (w *world) host(t *rapid.T) *host { return w.hosts[rapid.IntRange(0, 1).Draw(t, "host")] }

// change is for what engines may look at.
func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// pick takes one of the runs that are as wanted.
func (w *world) pick(t *rapid.T, wanted func(*run) bool) *run {
	var found []*run
	for _, r := range w.runs {
		if wanted(r) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		t.Skip("there is none")
	}
	return found[rapid.IntRange(0, len(found)-1).Draw(t, "run")]
}

// question is what a client asks, and asks again.
type question struct {
	id      stet.ID
	payload string
	rules   stet.Rules
}

// Ask is a client with a new request, which may be one under a key that was used for another.
func (m machine) Ask(t *rapid.T) {
	q := question{named(rapid.SampledFrom(keys[:]).Draw(t, "key")), rapid.SampledFrom([]string{"x", "x", "x", "y"}).Draw(t, "payload"), policies[names.Draw(t, "policy")]}
	m.w.asked = append(m.w.asked, q)
	m.w.ask(t, q)
}

// Retry is a client that asks again.
func (m machine) Retry(t *rapid.T) {
	if len(m.w.asked) == 0 {
		t.Skip("nobody has asked")
	}
	m.w.ask(t, m.w.asked[rapid.IntRange(0, len(m.w.asked)-1).Draw(t, "question")])
}

func (w *world) ask(t *rapid.T, q question) {
	w.askAt(t, w.host(t), q)
}

// askAt is a client that asks this process.
func (w *world) askAt(t *rapid.T, e *host, q question) {
	lookup := rapid.SampledFrom([]bool{false, false, false, false, false, true}).Draw(t, "lookup")
	patience := rapid.SampledFrom([]time.Duration{0, 10 * time.Second, lease + lease/2}).Draw(t, "patience")
	w.networkFaults(t)
	payload := q.payload
	d, err := e.Begin(w.ctx, stet.Request{ID: q.id, Subject: stet.Subject{Body: []byte(payload)}, Meta: map[string]string{"payload": payload},
		Policy: &stet.Policy{Lease: lease, Execution: stet.Never, Rules: q.rules}, LookupOnly: lookup})
	if err == nil && d.Verdict == stet.InProgress && w.begunByIt(&d.Record) {
		t.Fatal("I11: a request was told to wait for itself")
	}
	if err == nil && d.Verdict == stet.InProgress && patience > 0 {
		if d, err = e.Await(w.ctx, d, patience); d.Claim != nil {
			t.Fatal("W22: who had waited was to execute")
		}
	}
	switch {
	case err != nil && d.Claim != nil:
		t.Fatal("I8: an error came with a claim")
	case err != nil:
		return
	case d.Claim != nil && lookup:
		t.Fatal("a lookup was to execute")
	case d.Verdict == stet.Mismatch && d.Record.Meta["payload"] == payload:
		t.Fatal("I9: an honest retry was told that it was none")
	case d.Verdict != stet.Mismatch && d.Verdict != stet.Gone && d.Verdict != stet.Absent && d.Record.Meta["payload"] != payload:
		t.Fatalf("I9: another request's record was ruled to be %v", d.Verdict)
	}
	switch d.Verdict {
	case stet.Execute:
		w.execute(t, e, &d, payload)
	case stet.Replay:
		w.seen.replayed++
		w.replayed(t, &d.Record, payload)
	}
}

// begunByIt: an answer may be lost of a write that made the record the request's own.
func (w *world) begunByIt(r *stet.Record) bool { // I11, W2
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.Version == w.begun
}

// execute checks that a handler may run: that those before it in this life have had no effect and
// will have none, or belong to who chose to risk it.
func (w *world) execute(t *rapid.T, e *host, d *stet.Decision, payload string) { // I1
	h := d.Claim.Head()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.executed++
	if done, open := w.effects(h.ID, h.CreatedAt, nil); (len(done) > 0 || open) && !w.risked[h.CreatedAt] {
		t.Fatalf("I1: an execution was let begin: effects before it %d, one may still come %v", len(done), open)
	}
	if h.Fence() <= w.fences[h.Key] {
		t.Fatal("I3: an execution has a fence that is no higher than an earlier one's")
	} else if w.fences[h.Key] != 0 {
		w.seen.again++
	}
	w.fences[h.Key] = h.Fence()
	w.runs = append(w.runs, &run{host: e, claim: d.Claim, id: h.ID, payload: payload, life: h.CreatedAt, fence: h.Fence(), lease: h.DueAt})
}

// replayed checks that an answer is one that was given to this request, and the same for all of its
// life.
func (w *world) replayed(t *rapid.T, r *stet.Record, payload string) { // I2, I9
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Kept == stet.KeptStatus && r.Response == nil && (r.Published || r.Reconciled) {
		return
	}
	if r.Response == nil {
		t.Fatal("I2: a replay has no response")
	}
	body := string(r.Response.Body)
	if !slices.ContainsFunc(w.runs, func(o *run) bool {
		return o.life.Equal(r.CreatedAt) && o.payload == payload && (body == o.answer || body == receipt(o) && o.arrived)
	}) {
		t.Fatal("I2: an answer was given that nobody gave")
	}
	for _, o := range w.runs { // a client may have been given an answer which only its process knew when evidence came
		if o.life.Equal(r.CreatedAt) && o.handed && body != o.answer && (o.placed || !r.Reconciled) && !w.risked[o.life] {
			t.Fatal("I2: another answer was given than the first that a client got")
		}
	}
	w.tell(t, r.CreatedAt, body)
}

// tell is a client that is told the answer. All are told the same.
func (w *world) tell(t *rapid.T, life time.Time, body string) { // I2
	if first, ok := w.told[life]; ok && first != body {
		t.Fatal("I2: there are two answers in one life")
	}
	w.told[life] = body
}

// receipt is what the provider says of an effect.
func receipt(r *run) string { return fmt.Sprint("receipt ", r.fence) }

// Send is a handler that does what it is there for: a message leaves for the provider.
func (m machine) Send(t *rapid.T) {
	w := m.w
	r := w.pick(t, func(r *run) bool {
		return !r.over && !r.sent && (!r.doubted && w.now().Before(r.lease) || r.overdue && w.working(r))
	})
	w.change(func() { r.sent, r.sentAt = true, w.now() })
}

// Charge is a handler whose message arrives at once.
func (m machine) Charge(t *rapid.T) {
	w := m.w
	r := w.pick(t, func(r *run) bool { return !r.over && !r.sent && !r.voided && !r.doubted && w.now().Before(r.lease) })
	w.mu.Lock()
	defer w.mu.Unlock()
	r.sent, r.sentAt = true, w.now()
	w.arrive(t, r)
}

// arrive is a message that comes to the provider.
func (w *world) arrive(t *rapid.T, r *run) { // I1
	if done, _ := w.effects(r.id, r.life, nil); len(done) > 0 && !w.risked[r.life] {
		t.Fatal("I1: one key had its effect twice")
	}
	r.arrived = true
	w.seen.effects++
}

// Deliver lets a message that is under way arrive: a run's at the provider, or a write at the store
// whose writer has given it up.
func (m machine) Deliver(t *rapid.T) {
	w := m.w
	w.mu.Lock()
	writes := w.late
	w.mu.Unlock()
	if len(writes) > 0 && rapid.Bool().Draw(t, "a write") {
		n := rapid.IntRange(0, len(writes)-1).Draw(t, "which")
		w.mu.Lock()
		w.late = slices.Delete(slices.Clone(writes), n, n+1)
		w.mu.Unlock()
		w.seen.late++
		writes[n]()
		return
	}
	r := w.pick(t, func(r *run) bool { return r.sent && r.mayArrive(w) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrive(t, r)
}

// Step is a sign of life of a handler's, which may be one that was overtaken and has not looked.
func (m machine) Step(t *rapid.T) {
	w := m.w
	r := w.pick(t, func(r *run) bool { return !r.over && !r.doubted })
	do := rapid.SampledFrom([]string{"renew", "advance", "publish"}).Draw(t, "do")
	w.networkFaults(t)
	r.steps++
	point := fmt.Sprint("after step ", r.steps)
	err := w.holding(t, r, func() error {
		switch do {
		case "renew":
			return r.claim.Renew(w.ctx)
		case "advance":
			return r.claim.Step(w.ctx, stet.Step{Point: point, Progress: []byte(point)})
		}
		return r.claim.Publish(w.ctx)
	})
	if err == nil {
		w.change(func() { r.lease, r.published = r.claim.Head().DueAt, r.published || do == "publish" })
	}
}

// Settle ends a run by what its handler knows, once more where it did not know before.
func (m machine) Settle(t *rapid.T) {
	w := m.w
	r := w.pick(t, func(r *run) bool { return slices.Contains(w.unended(), r) })
	outcome := rapid.SampledFrom(w.outcomes(r)).Draw(t, "outcome")
	w.networkFaults(t)
	w.settle(t, r, outcome)
}

// unended are the runs of which there is something to say.
func (w *world) unended() []*run {
	return slices.DeleteFunc(slices.Clone(w.runs), func(r *run) bool { return r.over || r.doubted && r.sent && !r.arrived })
}

// outcomes is what the handler of r may say truthfully.
func (w *world) outcomes(r *run) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.sent || r.arrived {
		all = append(all, "completed")
	}
	if done, open := w.effects(r.id, r.life, r); !r.sent && len(done) == 0 && !open { // nor did those whose work it goes on with
		all = append(all, "nothing")
	}
	if !r.doubted {
		all = append(all, "unknown", "overdue")
	}
	return all
}

// settle says what became of r.
func (w *world) settle(t *rapid.T, r *run, outcome string) {
	w.change(func() { r.spoken = true })
	again := r.doubted
	o := stet.Outcome{Withheld: rapid.Bool().Draw(t, "withheld") || !r.arrived} // no client is told of an effect that there is not
	switch outcome {
	case "nothing":
		r.claim.NotExecuted("nothing happened")
		w.change(func() { r.proven = true })
	case "unknown":
		r.claim.Unknown("timeout")
		w.change(func() { r.doubted = true })
	case "overdue":
		r.claim.Overdue("late")
		w.change(func() { r.doubted, r.overdue = true, true })
	case "completed":
		r.claim.Completed()
		w.change(func() { r.answer = fmt.Sprint("answer ", r.fence) })
		o.Response = stet.Response{Status: 201, Body: []byte(r.answer)}
	}
	err := w.holding(t, r, func() error { return r.claim.Settle(w.ctx, o) })
	w.change(func() {
		if outcome == "unknown" || outcome == "overdue" { // whether the store has heard it or not, the handler may learn more
			return
		}
		r.over, r.overdue = true, false
		switch {
		case outcome != "completed":
		case err == nil:
			w.tell(t, r.life, r.answer)
		case !errors.Is(err, stet.ErrFenced) && !o.Withheld && !again:
			r.handed = true
			w.seen.handed++
		}
	})
}

// holding has r's holder do something. Once it was overtaken it is told so; that it changes nothing
// is for [world.witness] to see.
func (w *world) holding(t *rapid.T, r *run, do func() error) error { // I3, W8, W16
	was := w.stored(r.id)
	mine := was != nil && was.Fence() == r.fence && (was.State == stet.Running || was.State == stet.Unknown)
	err := do()
	is := w.stored(r.id)
	switch fenced := errors.Is(err, stet.ErrFenced); {
	case err == nil && !mine:
		t.Fatal("I3: a holder that was overtaken was not told so")
	case fenced && mine && was.State == stet.Running && is != nil && is.Version == was.Version && !is.Over():
		t.Fatal("I11: a holder was told that it was overtaken, by itself")
	case fenced:
		w.seen.fenced++
	}
	return err
}

// Pass is time going by, for all or for the store's clock alone.
func (m machine) Pass(t *rapid.T) {
	if d := spans.Draw(t, "time"); d > 2*lease || !rapid.Bool().Draw(t, "a jump of the store's clock") {
		after(d)
	} else {
		m.w.skew.Add(int64(d))
	}
	synctest.Wait()
}

// Fail cuts a process off from the store, mends that, or ends the process and starts another.
func (m machine) Fail(t *rapid.T) {
	w := m.w
	i := rapid.IntRange(0, len(w.hosts)-1).Draw(t, "host")
	h := w.hosts[i]
	switch do := rapid.SampledFrom([]string{"mend", "mend", "cut", "crash"}).Draw(t, "do"); do {
	case "mend", "cut":
		w.change(func() { h.cut = do == "cut" })
	case "crash":
		w.change(func() {
			h.cut = true
			h.ended = true
			for _, r := range w.runs {
				r.over, r.overdue = r.over || r.host == h, r.overdue && r.host != h
			}
		})
		w.hosts[i] = w.start()
	}
}
