package observe

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/operate/fleet"
)

// Results are the values of idem_requests_total's label: each request has exactly one.
var Results = fleet.Results

// lapses are the values of [stet.Event].Lapse. Their series exist from the beginning: the first
// thing that a new process counts may be what a killed one has left.
var lapses = []string{stet.CauseHolderGone, "lease-lapsed", "lease-lost", "not-resumed"}

// storeOps are the verbs a store is asked.
var storeOps = []string{"create", "get", "replace", "delete", "due", "list", "count", "reap", "trim"}

// Metrics counts events. All series of known routes exist from the beginning, so that the first
// event of a kind is a rise from zero and not a series that appears. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	requests, shadow, errors, reconcile, lapsed *prometheus.CounterVec
	unprotected                                 *prometheus.CounterVec
	lost, swept, reaped, trimmed, weak, refused prometheus.Counter
	double, unplaced                            prometheus.Counter
	execution                                   prometheus.Histogram
	store                                       *prometheus.HistogramVec
	active, dead, hanging                       *prometheus.GaugeVec
	oldest, snoozed, breaker                    *prometheus.GaugeVec // each of one series or none
	open                                        *prometheus.GaugeVec // likewise
	faults                                      map[StoreFault]*prometheus.GaugeVec
	measured                                    map[string]gauge   // by the names of [Measures]
	calls, failures                             prometheus.Summary // of the store, for [Metrics.StoreCalls]: not registered

	routes   atomic.Pointer[map[string][]prometheus.Counter] // by route, in the order of Results
	storeOps map[string]prometheus.Observer
}

// gauge is one series of a gauge.
type gauge struct {
	vec    *prometheus.GaugeVec
	labels []string
}

// NewMetrics returns metrics for the routes of that name, with the process's own and the runtime's
// beside them.
func NewMetrics(version string, routes ...string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counters("idem_requests_total", "Requests by how they were answered.", "route", "result"),
		shadow:   counters("idem_shadow_total", "Requests of routes in shadow mode by what would have been answered.", "route", "would"),
		execution: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "idem_execution_ms", Help: "How long completed executions took, in milliseconds.",
			Buckets: []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000}}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "idem_store_operation_seconds", Help: "How long the store took to answer.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}, []string{"op"}),
		errors:  counters("idem_store_errors_total", "Calls the store did not answer.", "op"),
		active:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_keys_active", Help: "Records in the store."}, []string{"state"}),
		lost:    counter("idem_lease_lost_total", "Executions whose lease could not be kept."),
		swept:   counter("idem_swept_total", "Records whose lease was over when the sweeper came: it moved them on, most to unknown."),
		lapsed:  counters("idem_lapsed_total", "Executions that ended without their holder's word, by cause.", "cause"),
		reaped:  counter("idem_reaped_total", "Records the reaper ended after their retention."),
		trimmed: counter("idem_history_trimmed_total", "Entries of the history that were removed because of their age."),
		weak:    counter("idem_weak_keys_total", "Requests with a key that is too short or too uniform to be random."),
		refused: counter("idem_admin_logins_refused_total", "Requests of operators with a wrong token."),
	}
	m.double = counter("idem_double_effect_total", "Keys of which it became known that they had their effect twice.")
	m.unplaced = counter("idem_unplaced_total", "Results that no record takes any more.")
	m.unprotected = counters("idem_unprotected_total", "Requests that may change state and ran without a key, or without the store.", "route")
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_keys_double_effect", Help: "Keys that had their effect twice, and that no person has noted since."}, nil)
	m.reconcile = counters("idem_reconcile_total", "Looks after unknown outcomes by what came of them.", "result")
	m.oldest = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_unknown_oldest_age_seconds", Help: "For how long the oldest outcome is unknown that is neither snoozed nor a dead letter, in seconds; 0 if there is none."}, nil)
	m.snoozed = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_keys_snoozed", Help: "Unknown outcomes that an operator has snoozed."}, nil)
	m.dead = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_dead_letters", Help: "Unknown outcomes and messages that only an operator can end, and that are not snoozed."}, []string{"kind"})
	m.hanging = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_hanging_calls", Help: "Calls of resolvers and flows that did not return in their time, and still run."}, []string{"kind"})
	m.breaker = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_breaker_state", Help: "What the circuit breaker before the store does: 0 closed, 1 half-open, 2 open."}, nil)
	m.faults = map[StoreFault]*prometheus.GaugeVec{
		Foreign:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_store_foreign", Help: "1 while the store is not the one that it was: no key is new in it."}, nil),
		Volatile: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_store_volatile", Help: "1 while the settings of the store's server lose records."}, nil),
		Unusable: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_store_unusable", Help: "1 while the store cannot be written, changed or read."}, nil),
	}
	m.measured = map[string]gauge{oldestAge: {m.oldest, nil}, snoozedKeys: {m.snoozed, nil}, doubles: {m.open, nil},
		deadKeys: {m.dead, []string{"unknown"}}, deadMessages: {m.dead, []string{"outbox"}}}
	for state := range states {
		m.measured[keysOf+state] = gauge{m.active, []string{state}}
	}
	m.calls = prometheus.NewSummary(prometheus.SummaryOpts{Name: "calls", Objectives: map[float64]float64{.5: .02, .99: .002}, MaxAge: 5 * time.Minute})
	m.failures = prometheus.NewSummary(prometheus.SummaryOpts{Name: "failures", Objectives: map[float64]float64{.5: .01}, MaxAge: time.Minute})
	for _, result := range []string{"scheduled", "resolved", "failed"} {
		m.reconcile.WithLabelValues(result)
	}
	for _, cause := range lapses {
		m.lapsed.WithLabelValues(cause)
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "idem_build_info", Help: "Always 1."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.requests, m.shadow, m.execution, m.store, m.errors, m.active, m.lost, m.swept, m.lapsed, m.reaped, m.trimmed, m.weak, m.refused,
		m.double, m.unplaced, m.unprotected, m.open, m.reconcile, m.oldest, m.snoozed, m.dead, m.hanging, m.breaker, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, fault := range m.faults {
		m.registry.MustRegister(fault)
	}
	m.storeOps = map[string]prometheus.Observer{}
	for _, op := range storeOps {
		m.storeOps[op] = m.store.WithLabelValues(op)
		m.errors.WithLabelValues(op)
	}
	m.Routes(routes...)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Routes makes the series of further routes, such as those of a new configuration. Those that are
// gone keep their counts.
func (m *Metrics) Routes(names ...string) {
	all := map[string][]prometheus.Counter{}
	if old := m.routes.Load(); old != nil {
		maps.Copy(all, *old)
	}
	for _, name := range names {
		row := make([]prometheus.Counter, len(Results))
		for i, result := range Results {
			row[i] = m.requests.WithLabelValues(name, result)
		}
		m.unprotected.WithLabelValues(name)
		all[name] = row
	}
	m.routes.Store(&all)
}

// Breaker sets idem_breaker_state, which is absent until then.
func (m *Metrics) Breaker(state float64) { m.breaker.WithLabelValues().Set(state) }

// LoginRefused counts a wrong token at the admin listener.
func (m *Metrics) LoginRefused() { m.refused.Inc() }

// StoreFault is something that may be wrong with a store that answers.
type StoreFault string

const (
	Foreign  StoreFault = "foreign"  // it is not the one that it was
	Volatile StoreFault = "volatile" // its settings lose records
	Unusable StoreFault = "unusable" // it cannot be written
)

// StoreIs sets idem_store_foreign, idem_store_volatile or idem_store_unusable, which are absent
// until then.
func (m *Metrics) StoreIs(fault StoreFault, is bool) {
	m.faults[fault].WithLabelValues().Set(oneIf(is))
}

// oneIf is what a gauge has for yes and no.
func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// StoreLog adds idem_store_log_bytes, asked with each scrape; not a number where there is no
// answer. It is to be called once.
func (m *Metrics) StoreLog(size func() (int64, error)) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "idem_store_log_bytes",
		Help: "How large the log before the store's table is, in bytes."}, func() float64 {
		n, err := size()
		if err != nil {
			return math.NaN()
		}
		return float64(n)
	}))
}

// Unstored adds idem_unstored and idem_unstored_bytes, asked with each scrape: see
// [stet.Engine.Unstored]. It is to be called once.
func (m *Metrics) Unstored(ask func() (entries int, bytes int64)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "idem_unstored",
			Help: "Results and doubts that only this process knows, because the store has not taken them yet."}, func() float64 {
			n, _ := ask()
			return float64(n)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "idem_unstored_bytes", Help: "Memory that they take, in bytes."}, func() float64 {
			_, bytes := ask()
			return float64(bytes)
		}))
}

// Upstream adds idem_upstream_up, asked with each scrape; absent while the answer is nil. Name is the
// host and port. It is to be called once.
func (m *Metrics) Upstream(ask func() *operate.Health) {
	m.registry.MustRegister(&upstreamUp{ask, prometheus.NewDesc("idem_upstream_up",
		"1 if the API can be connected to, as requests have found; 0 if not.", []string{"upstream", "instance"}, nil)})
}

// upstreamUp is a gauge whose labels change when the configuration does.
type upstreamUp struct {
	ask  func() *operate.Health
	desc *prometheus.Desc
}

func (u *upstreamUp) Describe(all chan<- *prometheus.Desc) { all <- u.desc }

func (u *upstreamUp) Collect(all chan<- prometheus.Metric) {
	if h := u.ask(); h != nil {
		all <- prometheus.MustNewConstMetric(u.desc, prometheus.GaugeValue, oneIf(h.OK), "default", h.Name)
	}
}

// Observe counts the event. It is fit for [stet.Config.Observe].
func (m *Metrics) Observe(e stet.Event) {
	switch e.Kind {
	case stet.Transition:
		m.transition(&e)
	case stet.StoreCall:
		if o, ok := m.storeOps[e.Op]; ok {
			o.Observe(e.Took.Seconds())
		} else {
			m.store.WithLabelValues(e.Op).Observe(e.Took.Seconds())
		}
		if e.Err != nil {
			m.errors.WithLabelValues(e.Op).Inc()
			m.failures.Observe(1)
		} else {
			m.calls.Observe(e.Took.Seconds())
			m.failures.Observe(0)
		}
	case stet.LeaseLost:
		m.lost.Inc()
	case stet.Answer:
		m.answer(&e)
	case stet.Probed:
		m.reconcile.WithLabelValues(e.Result).Inc()
	case stet.Hangs:
		if e.Result == "returned" {
			m.hanging.WithLabelValues(e.Op).Dec()
		} else {
			m.hanging.WithLabelValues(e.Op).Inc()
		}
	case stet.Reaped:
		m.reaped.Add(float64(e.Count))
	case stet.Trimmed:
		m.trimmed.Add(float64(e.Count))
	case stet.DoubleEffect:
		m.double.Inc()
	case stet.Unplaced:
		m.unplaced.Inc()
	case stet.PersistFailed, stet.Persisted, stet.ProbeFailed, stet.Miswired, stet.Overfull, stet.Neglected: // in the log, and as store errors or reconcile results
	}
}

func (m *Metrics) transition(e *stet.Event) {
	if e.ID.Scope == stet.OwnScope { // not a client's request
		return
	}
	if e.Lapse != "" {
		m.lapsed.WithLabelValues(e.Lapse).Inc()
	}
	switch {
	case executed(e):
		m.execution.Observe(millis(e.Took))
	case e.By == "sweeper":
		m.swept.Inc()
	case e.By == "reaper":
		m.reaped.Inc()
	}
}

func (m *Metrics) answer(e *stet.Event) {
	if row := (*m.routes.Load())[e.Route]; row != nil {
		if i := slices.Index(Results, e.Result); i >= 0 {
			row[i].Inc()
		}
	} else {
		m.requests.WithLabelValues(e.Route, e.Result).Inc()
	}
	if e.Cause != "" && e.Result == "bypass" {
		m.shadow.WithLabelValues(e.Route, e.Cause).Inc()
	}
	if e.Unprotected {
		m.unprotected.WithLabelValues(e.Route).Inc()
	}
	if e.WeakKey {
		m.weak.Inc()
	}
}

// Handler serves the metrics in the formats Prometheus asks for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// StoreCalls says how the store has answered lately: how long its calls took in the last 5 minutes,
// without those that failed, and whether most of the last minute's failed.
func (m *Metrics) StoreCalls() (p50, p99 time.Duration, failing bool) {
	took := quantiles(m.calls)
	return took[.5], took[.99], quantiles(m.failures)[.5] > 0
}

// quantiles are those of a summary in seconds, without those that are not known.
func quantiles(s prometheus.Summary) map[float64]time.Duration {
	var m dto.Metric
	all := map[float64]time.Duration{}
	if s.Write(&m) != nil {
		return all
	}
	for _, q := range m.GetSummary().GetQuantile() {
		if v := q.GetValue(); !math.IsNaN(v) {
			all[q.GetQuantile()] = time.Duration(v * float64(time.Second))
		}
	}
	return all
}
