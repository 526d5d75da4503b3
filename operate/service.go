package operate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/sealed"
	"github.com/stet-dev/stet/reconcile"
)

// Config is what a [Service] works with. Only the Engine is required.
type Config struct {
	Engine *stet.Engine
	// Title says which installation this is, such as "production eu-1".
	Title string
	// TraceURL is the address of a page that shows a trace, with {trace_id} in it.
	TraceURL string

	// Jobs are the bulk jobs, which need [Jobs.Run]; nil means that there are none. Services of one
	// process may share them.
	Jobs *Jobs
	// Outbox is where messages are, such as an [outbox.Desk]; nil means that the store has none.
	Outbox Outbox

	// Settle is how long an attempt has to be over before a record may be released, unless the
	// operator says now: longer than a call of the handler can be under way. 0 means
	// [reconcile.DefaultSettle]; with [stet.Never] a record may be released at any time.
	Settle time.Duration
	// Reconciler asks what became of a record, and says how many probes there are of it; nil means
	// that no probe is configured.
	Reconciler *reconcile.Reconciler
	// Clients says of a route how long its clients are told to wait at most, and whether they hear
	// of a run with 202. nil, and a wait of 0, mean the defaults of stethttp.
	Clients func(route string) (longest time.Duration, accepted bool)
	// Asking returns the requests that asked about a record in vain since it is unknown, and the
	// last that did not match it, each nil where there was none. id is the record's; a zero instant
	// says that it is not unknown. It is called for each record of an incident, and so answers from
	// memory; nil means that nothing is counted.
	Asking func(ctx context.Context, id string, unknownSince time.Time) (*Asking, *Mismatch)

	// Figures returns what the processes on this store have counted; nil means that nothing is
	// counted.
	Figures func(ctx context.Context) Figures
	// Health says how the store answers, and the cache, nil if there is none. If Health is nil, the
	// store is asked.
	Health func() (store Health, cache *Health)
	// Upstream says whether the API behind the process can be connected to, nil if that is not known.
	// If Upstream is nil, it never is.
	Upstream func() *Health
	// Warnings returns what should be looked at; nil means nothing.
	Warnings func() []Warning

	// CursorSecret is what the cursors of lists are sealed with for callers who may not see keys:
	// services with the same one open each other's. Without one, a service opens its own.
	CursorSecret []byte
	// Log gets an entry whenever a key or a response is revealed and whenever something is left out
	// because it could not be read; nil means no log.
	Log *slog.Logger
}

var configBounds = bounds.For[Config](
	bounds.Duration("Settle", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", stet.Never),
)

// Service does what operators do with the records of one engine. It is safe for concurrent use.
type Service struct{ service }

type service struct {
	engine   *stet.Engine
	conf     Config
	log      *slog.Logger
	settle   time.Duration
	cursors  sealed.Box
	readings readings
	sweeping chan struct{} // holds the one search that may walk the records
}

// New returns the service of an engine. The error names a field that is out of its bounds.
func New(c Config) (*Service, error) {
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	cursors := sealed.New()
	if len(c.CursorSecret) > 0 {
		cursors = sealed.Shared(c.CursorSecret, "stet admin cursors")
	}
	return &Service{service{engine: c.Engine, conf: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		settle: cmp.Or(c.Settle, reconcile.DefaultSettle), cursors: cursors, sweeping: make(chan struct{}, 1)}}, nil
}

// view is what one caller may see of the records.
type view struct {
	*service
	caller Caller
}

// Desk is what one caller can do. Each method checks the caller's role and scopes: what is out of
// reach is not found. Its errors are a [*Problem], or what [ProblemOf] makes one of.
type Desk struct {
	view
	room   stet.Room
	notice string // the job that the changes are of
}

// For returns the desk of a caller. room is the memory for large stored bodies, which the caller
// frees after use; nil means any.
func (s *Service) For(c Caller, room stet.Room) *Desk { return &Desk{view{&s.service, c}, room, ""} }

// Forget has the next overview read the records anew: they were changed.
func (s *Service) Forget() { s.readings.forget() }

// probe names no record. Should a client ever have one of that name, it is read and not looked at.
var probe = stet.ID{Scope: "stet-readyz", Key: "readyz"}

// Ask asks the store for a record. The error is nil if it answers within its deadline.
func (s *service) Ask(ctx context.Context) error {
	_, err := s.engine.Get(ctx, probe)
	if errors.Is(err, stet.ErrNotFound) {
		return nil
	}
	return err
}

// LoginRefused adds a refused login to the audit trail: from where it came, why it was refused, and
// the name of the token, if that is known.
func (s *Service) LoginRefused(ctx context.Context, from, why, token string) {
	err := s.engine.Operator().Audit(ctx, stet.ID{}, stet.Note{Who: from, Action: actionLoginRefused, Why: why, Evidence: token})
	if err != nil && !errors.Is(err, stet.ErrUnsupported) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "a refused login is not in the audit trail: the store did not answer", slog.String("remote", from))
	}
}
