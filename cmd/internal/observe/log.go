package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// Log writes events as log lines: what ended or went wrong at its own level, one line per execution at info, the beginning of
// each execution and every answer at debug. Safe for concurrent use.
type Log struct {
	log    *slog.Logger
	tag    func(stet.ID) string
	silent throttle
}

// NewLog returns a Log. Records are shown as tag names them, see [stet.Engine.Tag].
func NewLog(l *slog.Logger, tag func(stet.ID) string) *Log { return &Log{log: l, tag: tag} }

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
		l.write(slog.LevelError, "the result could not be stored; trying on until the lease ends", &e,
			slog.String("to", stateName(e.To)), slog.String("error", e.Err.Error()))
	case stet.Persisted:
		l.write(slog.LevelInfo, "the result is stored after all", &e, slog.String("to", stateName(e.To)))
	case stet.Probed:
		level := slog.LevelDebug
		if e.Result == "failed" {
			level = slog.LevelError // a dead letter: somebody has to look
		}
		l.write(level, "reconcile "+e.Result, &e, slog.Int("attempt", e.Attempt))
	case stet.ProbeFailed:
		l.write(slog.LevelWarn, "a probe found nothing out", &e, slog.Int("attempt", e.Attempt), slog.String("error", e.Err.Error()))
	case stet.Miswired:
		l.write(slog.LevelError, "the guard and its handler are put together wrongly", &e, slog.String("cause", e.Cause), slog.Int("attempt", e.Attempt))
	case stet.Reaped:
		l.write(slog.LevelDebug, "keys absent", &e, slog.Int("count", e.Count), slog.String("by", e.By))
	case stet.Answer:
		l.answer(&e)
	}
}

func (l *Log) transition(e *stet.Event) {
	level := slog.LevelInfo
	switch {
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
	if e.By == "holder" {
		attrs = append(attrs, slog.Float64("took_ms", millis(e.Took)))
	}
	l.write(level, "key "+stateName(e.To), e, attrs...)
}

// store tells of failures, not more than one a second: a store that is away fails with every request.
func (l *Log) store(e *stet.Event) {
	if e.Err == nil {
		return
	}
	if suppressed, ok := l.silent.pass(time.Now()); ok {
		l.write(slog.LevelError, "store error", e, slog.String("op", e.Op), slog.Float64("took_ms", millis(e.Took)),
			slog.String("error", e.Err.Error()), slog.Int("suppressed", suppressed))
	}
}

func (l *Log) answer(e *stet.Event) {
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l.write(slog.LevelDebug, "answer", e, slog.String("result", e.Result), slog.Int("status", e.Status), slog.Int("attempt", e.Attempt),
		slog.Float64("took_ms", millis(e.Took)))
}

// write hands the line to the handler itself: the logger would look up the line of source it was called from, each time.
func (l *Log) write(level slog.Level, msg string, e *stet.Event, attrs ...slog.Attr) {
	h, ctx := l.log.Handler(), context.Background()
	if !h.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, msg, 0)
	if e.ID.Key != "" {
		r.AddAttrs(slog.String("id", l.tag(e.ID)))
	}
	if e.Route != "" {
		r.AddAttrs(slog.String("route", e.Route))
	}
	if e.TraceID != "" {
		r.AddAttrs(slog.String("trace_id", e.TraceID))
	}
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r) // a log that cannot be written has nobody to tell
}

// stateName is a state's word; a record that is not there has one too.
func stateName(s stet.State) string {
	if s == 0 {
		return "absent"
	}
	return s.String()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// throttle lets one event a second pass and counts the others.
type throttle struct {
	mu      sync.Mutex
	next    time.Time
	skipped int
}

// pass reports whether the event passes, and how many before it did not.
func (t *throttle) pass(now time.Time) (suppressed int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		t.skipped++
		return 0, false
	}
	suppressed, t.skipped, t.next = t.skipped, 0, now.Add(time.Second)
	return suppressed, true
}
