package blackbox

import (
	"errors"
	"testing"
	"time"
)

// Need is what a case asks of its target beyond HTTP. A target that lacks it skips the case, and
// says why.
type Need uint

const (
	NeedFaults  Need = 1 << iota // a store that can be made to fail
	NeedClock                    // a store that can be made to fail, and whose clock can be moved
	NeedKill                     // a process that can be killed, over a store that outlives it
	NeedNodes                    // three layers over one store
	NeedPause                    // a process that can be stopped and continued
	NeedMetrics                  // counters to read
	NeedTLS                      // a listener with a certificate
	NeedOwn                      // a server no other case uses
)

// private: the case changes its server for everybody, and so gets its own.
const private = steered | NeedKill | NeedNodes | NeedPause | NeedMetrics | NeedTLS | NeedOwn

// steered: the case needs a store that does as it is told.
const steered = NeedFaults | NeedClock

// Target is one way of running the layer over one kind of store.
type Target struct {
	Name    string // "middleware" or "gateway"
	Store   string // "memory", "file" or "sqlite"
	Gateway bool
	// Lacks explains each need this target cannot meet.
	Lacks map[Need]string
	// Open starts a server; the end of t closes it. It may be called from a goroutine that is not
	// t's own.
	Open func(t testing.TB, s Spec) (Server, error)
}

// Spec is what a server is opened with.
type Spec struct {
	// Policy is the part of the configuration file that the case is about: YAML, without listen,
	// admin, upstream, store and, unless the case is about it, scope.
	Policy string
	Need   Need
}

// storeTimeout is the store.timeout_s of a case without faults and without one of its own: a busy
// machine, or the race detector in a pure Go SQLite, is no store that is down.
const storeTimeout = 20.0

// Server is a running layer with the fixture behind it.
type Server interface {
	// URL is where node i listens. There is one node, 0, unless the spec needs more.
	URL(node int) string
	Fixture() *Fixture
	// Faults steers a node's store. Only with NeedFaults or NeedClock.
	Faults(node int) Faults
	// Records lists what the store holds of a scope.
	Records(scope string) ([]Record, error)
	// Metrics returns the counters by series, written as in Prometheus text: `name{label="v"}`.
	// Only with NeedMetrics.
	Metrics() (map[string]float64, error)
	// Kill ends a node without any chance to clean up; Start runs it again, on the same store and
	// the same fixture, with this policy. Only with NeedKill.
	Kill(node int)
	Start(node int, policy string)
	// Pause stops a node as SIGSTOP does; Continue ends that. Only with NeedPause.
	Pause(node int)
	Continue(node int)
	// Log returns what the server logged so far.
	Log() string
}

// Record is what an operator can see of a record without revealing it.
type Record struct {
	State    string `json:"state"`
	Attempt  int    `json:"attempt"`
	Status   int    `json:"status"`
	Route    string `json:"route"`
	ID       string `json:"id"`
	Response int64  `json:"response_bytes"`
}

// Faults makes a store fail. Every verb returns once it is in force.
type Faults interface {
	Down()                     // every call of the store fails
	Up()                       // ends Down, Slow and FailComplete, and waits until the store is asked again
	Slow(d time.Duration)      // every call of the store takes this much longer
	FailComplete(on bool)      // only writes of a result (state completed) fail
	Advance(d time.Duration)   // moves the store's clock forward; only with NeedClock
	LoseReplies(every int)     // every n-th write happens and its reply is lost; 0 ends it
	Corrupt(scope, key string) // makes one record unreadable
}

// errNoMetrics is what a Server without counters answers.
var errNoMetrics = errors.New("this target has no metrics")
