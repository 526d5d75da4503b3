package observe

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// Log writes events as log lines: what ended or went wrong at its own level, one line per execution
// at info, the beginning of each execution and every answer at debug. Safe for concurrent use.
type Log struct {
	log      *slog.Logger
	tag      func(stet.ID) string
	failures throttle // of the store, at most one line a second
	reused   throttle // ... of each scope
	miswires throttle // of each route and cause, one a minute
}

// NewLog returns a Log. Records are shown as tag names them, see [stet.Engine.Tag], and with their
// scope: a tenant's name, or a hash where the scope comes from a credential.
func NewLog(l *slog.Logger, tag func(stet.ID) string) *Log {
	return &Log{log: l, tag: tag, failures: throttle{every: time.Second}, reused: throttle{every: time.Second}, miswires: throttle{every: time.Minute}}
}

// Observe logs the event. It is fit for [stet.Config.Observe].
func (l *Log) Observe(e stet.Event) {
	switch e.Kind {
	case stet.Transition:
		l.transition(&e)
	case stet.StoreCall:
		l.store(&e)
	case stet.LeaseLost:
		l.write(slog.LevelWarn, "lease lost", &e, slog.Int("attempt", e.Attempt))
	case stet.PersistFailed:
		l.write(slog.LevelError, "the result could not be stored; trying on until the store takes it", &e,
			slog.String("to", stateName(e.To)), slog.String("error", e.Err.Error()))
	case stet.Persisted:
		l.write(slog.LevelInfo, "the result is stored after all", &e, slog.String("to", stateName(e.To)))
	case stet.DoubleEffect:
		l.write(slog.LevelError, doubleEffect, &e, slog.Int("attempt", e.Attempt), slog.Int64("earlier_fence", e.Fence), slog.Int("status", e.Status),
			slog.String("state", stateName(e.To)))
	case stet.Unplaced:
		l.unplaced(&e)
	case stet.Overfull:
		l.write(slog.LevelWarn, overfull, &e, slog.Int("entries", e.Count))
	case stet.Probed:
		level := slog.LevelDebug
		if e.Result == "failed" || e.Result == "contradicted" {
			level = slog.LevelError // an operator has to look
		}
		l.write(level, "reconcile "+e.Result, &e, slog.Int("attempt", e.Attempt))
	case stet.ProbeFailed:
		l.write(slog.LevelWarn, "a probe found nothing out", &e, slog.Int("attempt", e.Attempt), slog.String("error", e.Err.Error()))
	case stet.Hangs:
		level, text := slog.LevelWarn, "a call of a "+e.Op+" has not returned in its time, and still runs"
		if e.Result == "returned" {
			level, text = slog.LevelInfo, "a call of a "+e.Op+" has returned late; its answer is not used"
		}
		l.write(level, text, &e, slog.Float64("took_ms", millis(e.Took)))
	case stet.Miswired:
		l.miswired(&e)
	case stet.Neglected:
		l.write(slog.LevelError, neglected, &e, slog.String("state", stateName(e.From)), slog.Float64("due_since_s", e.Took.Seconds()))
	case stet.Reaped:
		l.write(slog.LevelDebug, "keys absent", &e, slog.Int("count", e.Count), slog.String("by", e.By))
	case stet.Trimmed:
		l.write(slog.LevelInfo, "the history was trimmed", &e, slog.Int("entries", e.Count))
	case stet.Answer:
		l.answer(&e)
	}
}

// The lines that are about what no record says.
const (
	doubleEffect = "DOUBLE EFFECT: an earlier execution of this key had its effect, and the key was executed again: one of the two has to be undone"
	unplaced     = "a result has no place any more, and is kept nowhere but in this line"
	overfull     = "new executions are refused: the store has not taken what happened here, and limits.max_unstored_bytes is reached"
)

// neglected is the line about a store that no loop tidies.
const neglected = "a record should have been ended long ago: no process seems to sweep and reap this store; see that a gateway or maintenance.Background runs on it"

// unplaced tells of what this process knew and no record holds: the line is the last that says so.
func (l *Log) unplaced(e *stet.Event) {
	why := "the record is of another life"
	if e.Err != nil {
		why = e.Err.Error()
	}
	l.write(slog.LevelError, unplaced, e, slog.String("to", stateName(e.To)),
		slog.Int("attempt", e.Attempt), slog.Int("status", e.Status), slog.String("error", why))
}

func (l *Log) transition(e *stet.Event) {
	level := slog.LevelInfo
	switch {
	case e.ID.Scope == stet.OwnScope && e.From == 0: // no request runs
		return
	case e.To == stet.Unknown:
		level = slog.LevelWarn
	case e.From == 0, e.To == 0: // a beginning, and the end long after
		level = slog.LevelDebug
	}
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("from", stateName(e.From)), slog.Int("attempt", e.Attempt), slog.String("by", e.By)}
	if e.Cause != "" {
		attrs = append(attrs, slog.String("cause", e.Cause))
	}
	if e.Lapse != "" {
		attrs = append(attrs, slog.String("lapse", e.Lapse))
	}
	if executed(e) {
		attrs = append(attrs, slog.Float64("took_ms", millis(e.Took)))
	}
	l.write(level, "key "+stateName(e.To), e, attrs...)
}

// miswired tells of what is built or set up wrongly, which every request may meet.
func (l *Log) miswired(e *stet.Event) {
	suppressed, ok := l.miswires.pass(e.Route+"\x00"+e.Cause, time.Now())
	if !ok {
		return
	}
	level := slog.LevelError
	if e.Cause == "bad-outcome" { // it is on the safe side, and the next answer may be better
		level = slog.LevelWarn
	}
	l.write(level, cmp.Or(miswires[e.Cause], "the guard and its handler are put together wrongly"), e, slog.String("cause", e.Cause),
		slog.Int("attempt", e.Attempt), slog.Int("suppressed", suppressed))
}

var miswires = map[string]string{
	"second-guard":       "a request met its own record: it passes two guards, or one of them twice; give the inner one another scope or store",
	"bad-outcome":        "Stet-Outcome is neither not-executed, unknown nor completed; the outcome counts as unknown",
	"answered-elsewhere": "a handler answered, or is going to, where its guard does not see it; see Other frameworks in docs/http.md",
	"timeout-handler":    "http.TimeoutHandler answered within the guard, and its handler may go on: the outcome is unknown; put it around the guard",
	"bad-render":         "the renderer of refusals panicked or answered nothing",
}

// store tells of failures, not more than one a second: a store that is away fails with every
// request.
func (l *Log) store(e *stet.Event) {
	if e.Err == nil {
		return
	}
	if suppressed, ok := l.failures.pass("", time.Now()); ok {
		l.write(slog.LevelError, "store error", e, slog.String("op", e.Op), slog.Float64("took_ms", millis(e.Took)),
			slog.String("error", e.Err.Error()), slog.Int("suppressed", suppressed))
	}
}

func (l *Log) answer(e *stet.Event) {
	if e.Mismatch != nil {
		l.mismatch(e)
	}
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l.write(slog.LevelDebug, "answer", e, slog.String("result", e.Result), slog.Int("status", e.Status), slog.Int("attempt", e.Attempt),
		slog.Float64("took_ms", millis(e.Took)))
}

// mismatch tells of a key that was used for another request: a client makes its keys wrongly, and
// cannot mend it by trying again.
func (l *Log) mismatch(e *stet.Event) {
	if suppressed, ok := l.reused.pass(string(e.ID.Scope), time.Now()); ok {
		l.write(slog.LevelWarn, "a key was used for another request", e, slog.String("mismatch", strings.Join(e.Mismatch, " ")),
			slog.Int("suppressed", suppressed))
	}
}

// write hands the line to the handler itself: the logger would look up the line of source it was
// called from, each time.
func (l *Log) write(level slog.Level, msg string, e *stet.Event, attrs ...slog.Attr) {
	h, ctx := l.log.Handler(), context.Background()
	if !h.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, msg, 0)
	if e.ID.Key != "" {
		r.AddAttrs(slog.String("id", l.tag(e.ID)))
	}
	if e.ID.Scope != "" {
		r.AddAttrs(slog.String("scope", string(e.ID.Scope)))
	}
	if e.Route != "" {
		r.AddAttrs(slog.String("route", e.Route))
	}
	if e.TraceID != "" {
		r.AddAttrs(slog.String("trace_id", e.TraceID))
	}
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r) // there is no place to report that the log cannot be written
}

// stateName is a state's word; a record that is not there has one too.
func stateName(s stet.State) string {
	if s == 0 {
		return "absent"
	}
	return s.String()
}

// executed reports whether the event's Took is the duration of an execution. The Took of an unknown
// record says until when its lease kept others from settling it.
func executed(e *stet.Event) bool { return e.By == "holder" && e.To == stet.Completed }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// throttle lets one event of a name pass in every so long, and counts the others.
type throttle struct {
	every time.Duration
	mu    sync.Mutex
	of    map[string]turn
}

type turn struct {
	next    time.Time
	skipped int
}

// maxNames bounds how many names a throttle remembers: clients can make scopes.
const maxNames = 10_000

// pass reports whether the event passes, and how many before it did not.
func (t *throttle) pass(name string, now time.Time) (suppressed int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.of[name]
	switch {
	case now.Before(last.next):
		last.skipped++
		t.of[name] = last
		return 0, false
	case t.of == nil || !known && len(t.of) >= maxNames:
		t.of = map[string]turn{}
	}
	t.of[name] = turn{next: now.Add(t.every)}
	return last.skipped, true
}
