package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tag"
)

// Config says how a [Store] works. The zero value works.
type Config struct {
	// Prefix begins every key. It must not contain braces. "" means "stet".
	Prefix string
	// Shards is the number of slots that records and their indexes are spread over, 1 to 1024. It
	// is fixed by the first Open: a store with another number is refused. 0 means 64.
	Shards int
	// Wait is the number of replicas that have to confirm a write; with fewer confirmations the
	// write fails with [stet.ErrUnconfirmed]. 0 means that no write waits for replicas.
	Wait int
	// WaitTimeout bounds the wait for replicas. It is cut short so that an answer comes before the
	// deadline of the call. 0 means one second.
	WaitTimeout time.Duration
	// DurableByService states that the service that runs the server keeps what it has acknowledged,
	// as some do by other means than an append-only file. The settings of such a server are not
	// looked at, except for a policy that evicts.
	DurableByService bool
	// Copies is for a store whose records are copies of others, such as a cache's: it is not known
	// by an identity, so that a server that was emptied is taken.
	Copies bool
	// AllowVolatile accepts a server that may evict or forget records. False means that Open and
	// Check fail with [stet.ErrVolatile] for such a server.
	AllowVolatile bool
	// Linger is how long a record stays after its end if it is not reaped; then it vanishes by
	// itself. 0 means 24 hours.
	Linger time.Duration
	// Warn is called by Open with a text for each setting that can lose records or cannot be read.
	// It may be nil.
	Warn func(string)
}

var configBounds = bounds.For[Config](
	bounds.Number("Shards", 1, maxShards).OrDefault(),
	bounds.Number("Wait", 0, bounds.Many),
	bounds.Duration("WaitTimeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("Linger", bounds.Short, bounds.Long).OrDefault(),
)

const (
	defaultPrefix      = "stet"
	defaultShards      = 64
	defaultWaitTimeout = time.Second
	defaultLinger      = 24 * time.Hour
	maxShards          = 1024
)

// Store is a [stet.Store] in Redis. It is safe for concurrent use, in any number of processes. It
// raises the mark of its identity while it is written to, until it is closed. The client belongs to
// the caller.
type Store struct {
	client      Client
	gate        *storeid.Gate // nil for copies
	sharded     bool          // a script sees the keys of one slot alone
	prefix      string
	shards      int
	names       []string // of the shards
	wait        int
	waitFor     string
	waitTimeout time.Duration
	linger      time.Duration
	volatile    bool
	service     bool
	most        int // bytes of a record that the server reads
	buffers     buffers
}

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Waiter    = (*Store)(nil)
	_ stet.Finder    = (*Store)(nil)
	_ stet.Forgetter = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
	_ stet.Checker   = (*Store)(nil)
	_ stet.Sizer     = (*Store)(nil)

	_ stet.Identified = (*Store)(nil)
)

// errTorn is returned for an answer that no script of this store gives. The call may have happened.
var errTorn = errors.New("the server's answer is torn")

// Open returns a store. It checks the settings of the server, or of every master of a cluster that
// has records, and that the number of shards is the one the records were first stored with.
// Settings can change later: see [Store.Check].
func Open(ctx context.Context, client Client, c Config) (*Store, error) {
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	c.Prefix, c.Shards = cmp.Or(c.Prefix, defaultPrefix), cmp.Or(c.Shards, defaultShards)
	c.WaitTimeout, c.Linger = cmp.Or(c.WaitTimeout, defaultWaitTimeout), cmp.Or(c.Linger, defaultLinger)
	if strings.ContainsAny(c.Prefix, "{}") {
		return nil, fmt.Errorf("redisstore: config: Prefix %q contains braces, which choose the slot; remove them", c.Prefix)
	}
	s := &Store{client: client, prefix: c.Prefix, shards: c.Shards, linger: c.Linger, volatile: c.AllowVolatile, service: c.DurableByService,
		wait: c.Wait, waitFor: strconv.Itoa(c.Wait), waitTimeout: c.WaitTimeout}
	for i := range s.shards {
		s.names = append(s.names, shardName(s.prefix, i))
	}
	if err := s.start(ctx, &c); err != nil {
		return nil, wrap("open", err)
	}
	return s, nil
}

func (s *Store) start(ctx context.Context, c *Config) error {
	if err := s.serves(ctx); err != nil {
		return err
	}
	if err := s.check(ctx, once(c.Warn)); err != nil {
		return err
	}
	if err := s.rights(ctx); err != nil {
		return err
	}
	s.most = s.largest(ctx)
	if err := s.agree(ctx); err != nil || c.Copies {
		return err
	}
	return s.openGate(ctx)
}

// place is where a record lives. The name of a shard is also the name of its index.
type place struct {
	shard, record, member string
	identity              string   // the key of the store's, which scripts that write look at
	also                  []string // further keys that a script writes, which have to be on its server
	owner                 uint32   // the member's checksum, with which those of the record's parts begin
}

func (s *Store) place(id stet.ID) place {
	w := s.buffers.get()
	defer s.buffers.put(w)
	w.member(id)
	p := place{owner: crc32.Checksum(*w, castagnoli)}
	p.shard = s.shard(int(p.owner % uint32(s.shards)))
	p.identity = s.identityOf(p.shard)
	p.record = p.shard + ":r:" + string(*w)
	p.member = p.record[len(p.record)-len(*w):]
	return p
}

func (s *Store) shard(i int) string { return s.names[i] }

func shardName(prefix string, i int) string { return "{" + prefix + ":" + strconv.Itoa(i) + "}" }

// alsoOf adds the keys that a write of h has besides: its names, and the history if it has a note.
func (p *place) alsoOf(h *stet.Head) {
	for _, name := range []string{h.DownstreamKey, h.DownstreamID} {
		if name != "" {
			p.also = append(p.also, p.shard+":name:"+name)
		}
	}
	if h.Note != nil {
		p.also = append(p.also, p.shard+":history")
	}
}

// Places among due records, as now.lua describes them. Records that are due in more than 158 years,
// or never, are listed as due then. An index may be early, since [Store.Due] checks the records,
// but it must never list a record later than it is due.
const (
	duePerState = 1e15
	dueUnit     = 10 // microseconds
	dueFarthest = dueUnit * duePerState / 2
)

// placeOfTag returns the place of a tag in an index, as now.lua describes it: 50 of its bits, which
// is the precision of numbers there.
func placeOfTag(text string) string {
	n, ok := tag.Parse(text)
	if !ok {
		return ""
	}
	return strconv.FormatInt(7*duePerState+int64(n>>14), 10)
}

// write appends the arguments that create and replace begin with: the record, its place without the
// time, in how many microseconds it is due, its lifetime, the place of its tag.
func (s *Store) write(p *place, h *stet.Head, b *stet.Body, args []string) []string {
	in, left := int64(dueFarthest), time.Duration(0)
	if h.DueIn >= 0 {
		in = min(in, h.DueIn.Microseconds())
		if h.State == stet.Completed || h.State == stet.Retryable || h.State == stet.Expired {
			left = saturate(h.DueIn, h.Rules.KeepExpired, s.linger)
		}
	}
	w := s.buffers.get()
	defer s.buffers.put(w)
	w.record(h, b, p.owner)
	return append(args, string(*w), strconv.FormatInt(int64(h.State)*duePerState, 10), strconv.FormatInt(in, 10), strconv.FormatInt(left.Milliseconds(), 10), placeOfTag(h.Tag))
}

// trimmed removes empty arguments at the end.
func trimmed(args []string) []string {
	for len(args) > 0 && args[len(args)-1] == "" {
		args = args[:len(args)-1]
	}
	return args
}

func saturate(all ...time.Duration) (sum time.Duration) {
	for _, d := range all {
		if sum += d; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

// wrap names the operation of an error that is not one of the plain answers.
func wrap(op string, err error) error {
	switch {
	case err == nil, err == stet.ErrExists, err == stet.ErrStale, err == stet.ErrNotFound:
		return err
	case errors.Is(err, stet.ErrBusy):
	case answered(err, "LOADING ", "BUSY ", "CLUSTERDOWN ", "MASTERDOWN ", "NOREPLICAS "):
		err = fmt.Errorf("%w: %w", stet.ErrBusy, err)
	case answered(err, "OOM"), answered(err, "MISCONF") && strings.Contains(err.Error(), "No space left"):
		err = fmt.Errorf("%w: %w", stet.ErrFull, err)
	case answered(err, tooLong):
		err = fmt.Errorf("%w: %w", stet.ErrRefused, err)
	}
	return fmt.Errorf("redisstore: %s: %w", op, err)
}

// ends wraps the error that a verb ends with.
func ends(verb string, err *error) { *err = wrap(verb, *err) }

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (found stet.Record, err error) {
	defer ends("create", &err)
	if err := codec.Check(&r.Head); err != nil {
		return found, err
	}
	p := s.place(r.ID)
	args := s.write(&p, &r.Head, &r.Body, make([]string, 0, 7))
	if err := s.fits(args); err != nil {
		return found, err
	}
	if r.DownstreamKey != "" || r.DownstreamID != "" {
		args = append(args, r.DownstreamKey, r.DownstreamID)
		p.alsoOf(&r.Head)
	}
	got, err := s.confirmed(ctx, createScript, &p, showing(r.Version), trimmed(args)...)
	if err != nil {
		return found, err
	}
	if have, ok := got.([]any); ok {
		if found, err = s.record(have, &p); err != nil {
			return found, err
		}
		most := stet.MaxBody(ctx)
		if most > stet.SmallBody && found.Left > 0 && found.Left <= most {
			return s.met(ctx, r)
		}
		found.Body = found.UpTo(most)
		return found, stet.ErrExists
	}
	if err := written(&r.Head, got); err != nil {
		return found, err
	}
	return r, nil
}

// met returns the record that a Create has met, with its body, which that has left.
func (s *Store) met(ctx context.Context, r stet.Record) (stet.Record, error) {
	have, err := s.Get(ctx, r.ID)
	switch {
	case errors.Is(err, stet.ErrNotFound): // it was removed meanwhile
		return s.Create(ctx, r)
	case err != nil:
		return stet.Record{}, err
	}
	return have, stet.ErrExists
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (found stet.Record, err error) {
	defer ends("get", &err)
	p := s.place(id)
	got, err := s.ask(ctx, getScript, &p, strconv.FormatInt(stet.MaxBody(ctx), 10))
	switch {
	case err != nil:
		return found, err
	case got == gone:
		return found, stet.ErrNotFound
	}
	have, _ := got.([]any)
	return s.record(have, &p)
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (have stet.Head, err error) {
	defer ends("replace", &err)
	if err := codec.Check(&h); err != nil {
		return have, err
	}
	p := s.place(h.ID)
	p.alsoOf(&h)
	completed, body, life, note := "none", "", "", ""
	if b == nil {
		body = "keep"
	}
	if h.CreatedAt.IsZero() {
		life = "new"
	}
	switch {
	case h.State == stet.Completed && (h.CompletedAt.IsZero() || life == "new"):
		completed = "now"
	case (h.State == stet.Completed || h.State == stet.Expired) && !h.CompletedAt.IsZero():
		completed = "kept"
	}
	if h.Note != nil {
		note = encodeEntry(h.Tag, h.Attempt, h.Note)
	}
	args := s.write(&p, &h, b, make([]string, 0, 12))
	if err := s.fits(args); err != nil {
		return have, err
	}
	args = trimmed(append(args, stamped(prev), completed, body, life, note, h.DownstreamKey, h.DownstreamID))
	got, err := s.confirmed(ctx, replaceScript, &p, showing(h.Version), args...)
	switch {
	case err != nil:
		return have, err
	case got == gone:
		return have, stet.ErrNotFound
	}
	if newer, ok := got.([]any); ok {
		if err := s.decode(&have, nil, newer, &p); err != nil {
			return stet.Head{}, err
		}
		return have, stet.ErrStale
	}
	if err := written(&h, got); err != nil {
		return have, err
	}
	return h, nil
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) (err error) {
	defer ends("delete", &err)
	p := s.place(id)
	got, err := s.confirmed(ctx, deleteScript, &p, removing, stamped(prev))
	switch {
	case err != nil, got == done:
		return err
	case got == gone:
		return stet.ErrNotFound
	case got == stale:
		return stet.ErrStale
	case got == foreign:
		return fmt.Errorf("%w: its format", stet.ErrCorrupt)
	}
	return errTorn
}

// written sets the instants that the server's clock gave a write.
func written(h *stet.Head, got any) error {
	instants, _ := got.(string)
	if !stamp(h, instants) {
		return errTorn
	}
	h.AsOf = h.UpdatedAt
	return nil
}

// record decodes an answer with a whole record.
func (s *Store) record(got []any, p *place) (r stet.Record, err error) {
	if err := s.decode(&r.Head, &r.Body, got, p); err != nil {
		return stet.Record{}, err
	}
	return r, nil
}

// decode decodes an answer with a record: the time, then the record, or the part before its body if
// b is nil, or if the body was left: then its size is the third.
func (s *Store) decode(h *stet.Head, b *stet.Body, got []any, p *place) (err error) {
	var left int64
	switch len(got) {
	case 2:
	case 3:
		if left, _ = got[2].(int64); left <= 0 || b == nil {
			return errTorn
		}
	default:
		return errTorn
	}
	now, _ := got[0].(string)
	value, _ := got[1].(string)
	w := s.buffers.get()
	defer s.buffers.put(w)
	*w = append(*w, value...)
	d := decoder{value: value, bytes: *w, member: p.member, owner: p.owner}
	if !d.head(h) {
		return fmt.Errorf("%w: its head", stet.ErrCorrupt)
	}
	var ok bool
	if h.AsOf, ok = parseInstant(now); !ok {
		return errTorn
	}
	if h.AsOf.Before(h.UpdatedAt) { // it was written by another server's clock, which was ahead
		h.AsOf = h.UpdatedAt
	}
	if left > 0 {
		b.Left = left
		return nil
	}
	if b != nil && !d.rest(b) {
		return fmt.Errorf("%w: its body", stet.ErrCorrupt)
	}
	return nil
}

// Wait implements [stet.Waiter] by reading again and again.
func (s *Store) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	p := s.place(id)
	version, from, to := stamped(seen), strconv.Itoa(atFormat), strconv.Itoa(atState-1)
	return rest.Look(ctx, rest.FirstLook, nil, func() (bool, error) {
		got, err := s.client.Do(ctx, p.record, []string{"GETRANGE", p.record, from, to}, nil)
		return err != nil || first(got) != version, nil // the caller reads the record itself
	})
}
