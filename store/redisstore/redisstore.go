package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// Config is how a [Store] works. The zero value works.
type Config struct {
	Prefix        string        // of all keys; default [DefaultPrefix]. It must not hold braces
	Shards        int           // in how many slots records and their indexes are; default [DefaultShards]. It is for ever
	Wait          int           // replicas that have to confirm a write; default 0
	WaitTimeout   time.Duration // ... within this time; default [DefaultWaitTimeout]
	AllowVolatile bool          // take a server that may evict or forget records
	Linger        time.Duration // how long after its end a record that nobody reaped vanishes; default [DefaultLinger]
	Warn          func(string)  // told at Open of settings that lose records; nil: nobody
}

// Defaults of [Config].
const (
	DefaultPrefix      = "stet"
	DefaultShards      = 64
	DefaultWaitTimeout = time.Second
	DefaultLinger      = 24 * time.Hour
	MaxShards          = 1024
)

// Store is a [stet.Store] in Redis. It is safe for concurrent use, in any number of processes. It needs no Close: the client
// is the caller's.
type Store struct {
	client            Client
	prefix            string
	shards            int
	wait              int
	waitFor, waitUpTo string
	linger            time.Duration
}

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Waiter    = (*Store)(nil)
	_ stet.Finder    = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
)

// ErrVolatile: the server may forget records, and nobody allowed that.
var ErrVolatile = errors.New("the server may forget records")

// errTorn: the server answered, and not as the scripts do. What was asked may have happened.
var errTorn = errors.New("the server's answer is torn")

// Open returns a store. It checks the settings of the server, or of all masters of a cluster that have records, and that all who
// share the records agree on the number of shards.
func Open(ctx context.Context, client Client, c Config) (*Store, error) {
	c.Prefix, c.Shards = cmp.Or(c.Prefix, DefaultPrefix), cmp.Or(c.Shards, DefaultShards)
	c.WaitTimeout, c.Linger = cmp.Or(c.WaitTimeout, DefaultWaitTimeout), cmp.Or(c.Linger, DefaultLinger)
	switch {
	case strings.ContainsAny(c.Prefix, "{}"):
		return nil, fmt.Errorf("redisstore: config: Prefix %q holds braces, which choose the slot", c.Prefix)
	case c.Shards < 1 || c.Shards > MaxShards:
		return nil, fmt.Errorf("redisstore: config: Shards is %d; it has to be 1 to %d", c.Shards, MaxShards)
	case c.Wait < 0:
		return nil, fmt.Errorf("redisstore: config: Wait is %d; it cannot be negative", c.Wait)
	}
	s := &Store{client: client, prefix: c.Prefix, shards: c.Shards, linger: c.Linger,
		wait: c.Wait, waitFor: strconv.Itoa(c.Wait), waitUpTo: strconv.FormatInt(max(1, c.WaitTimeout.Milliseconds()), 10)}
	if err := s.check(ctx, &c); err != nil {
		return nil, err
	}
	return s, s.agree(ctx)
}

// oldest is the first Redis whose scripts have flags.
const oldest = 7

// check reads the settings that decide whether records stay, of every server that has shards.
func (s *Store) check(ctx context.Context, c *Config) error {
	said := map[string]bool{}
	warn := func(text string) {
		if c.Warn != nil && !said[text] {
			c.Warn(text)
		}
		said[text] = true
	}
	server, err := s.info(ctx, "", "INFO")
	if err == nil {
		err = settings(server, c, warn)
	}
	for i := 0; i < s.shards && err == nil && server["cluster_enabled"] == "1"; i++ {
		const ask = "return redis.call('INFO')"
		if server, err = s.info(ctx, s.shard(i), "EVAL", ask, "1", s.shard(i)); err == nil {
			err = settings(server, c, warn)
		}
	}
	if err != nil {
		return fmt.Errorf("redisstore: open: %w", err)
	}
	return nil
}

// settings judges one server. Where something cannot be read nothing is known, and that is said.
func settings(server map[string]string, c *Config, warn func(string)) error {
	major, _, _ := strings.Cut(server["redis_version"], ".") // Valkey says whose equal it is
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("the server is Redis %s, and has to be %d or newer", server["redis_version"], oldest)
	}
	switch policy := server["maxmemory_policy"]; {
	case policy == "":
		warn("the server does not say its maxmemory-policy; it has to be noeviction")
	case policy != "noeviction" && server["maxmemory"] != "0" && !c.AllowVolatile:
		return fmt.Errorf("%w: its maxmemory-policy is %s, and has to be noeviction (CONFIG SET maxmemory-policy noeviction)", ErrVolatile, policy)
	case policy != "noeviction" && !c.AllowVolatile:
		return fmt.Errorf("%w: its maxmemory-policy is %s and would evict as soon as somebody sets maxmemory; it has to be noeviction", ErrVolatile, policy)
	}
	if server["aof_enabled"] == "0" {
		warn("the server writes no append-only file: a restart or a crash loses keys, and what they protect may run again (CONFIG SET appendonly yes)")
	}
	return nil
}

// info is what the server that has key says of itself.
func (s *Store) info(ctx context.Context, key string, command ...string) (map[string]string, error) {
	got, err := s.client.Do(ctx, key, command)
	if err != nil {
		return nil, err
	}
	text, _ := got[0].(string)
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// agree makes the first who opens the store decide the number of shards.
func (s *Store) agree(ctx context.Context) error {
	key := s.prefix + ":shards"
	mine := strconv.Itoa(s.shards)
	got, err := s.client.Do(ctx, key, []string{"SET", key, mine, "NX"}, []string{"GET", key})
	if err != nil {
		return fmt.Errorf("redisstore: open: %w", err)
	}
	if len(got) != 2 || got[1] != mine {
		return fmt.Errorf("redisstore: the records are in %v shards, and the configuration says %s: keep what is there", got[len(got)-1], mine)
	}
	return nil
}

// place is where a record lives.
type place struct{ shard, record, member string }

func (s *Store) place(id stet.ID) place {
	member := memberOf(id)
	h := fnv.New64a()
	_, _ = h.Write([]byte(member))
	shard := s.shard(int(h.Sum64() % uint64(s.shards)))
	return place{shard, shard + ":r:" + member, member}
}

func (s *Store) shard(i int) string { return "{" + s.prefix + ":" + strconv.Itoa(i) + "}" }

// write is what create and replace have in common.
func (s *Store) write(p *place, h *stet.Head, body string) []string {
	dueIn, lifetime := int64(-1), int64(0)
	if h.DueIn >= 0 {
		dueIn = h.DueIn.Microseconds()
		if h.State == stet.Completed || h.State == stet.Retryable || h.State == stet.Expired {
			lifetime = saturate(h.DueIn, h.Rules.KeepExpired, s.linger).Milliseconds()
		}
	}
	return []string{p.member, versionText(h.Version), strconv.Itoa(int(h.State)), encodeHead(h, p.member), body,
		strconv.FormatInt(dueIn, 10), strconv.FormatInt(lifetime, 10), h.DownstreamKey, h.DownstreamID}
}

func saturate(all ...time.Duration) (sum time.Duration) {
	for _, d := range all {
		if sum += d; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

func valid(h *stet.Head) error {
	if h.Version == 0 || h.Version > math.MaxInt64 || h.State < stet.Running || h.State > stet.Expired || h.Kept > stet.KeptStatus || h.Rules.OnLapse > stet.LapseReexecute {
		return errors.New("redisstore: a record with a version, a state or a rule that is none")
	}
	return nil
}

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if err := valid(&r.Head); err != nil {
		return stet.Record{}, err
	}
	p := s.place(r.ID)
	got, err := s.run(ctx, createScript, p.record, p.shard, true, s.write(&p, &r.Head, encodeBody(&r.Body, p.member))...)
	switch {
	case answered(err, "OOM"):
		return stet.Record{}, fmt.Errorf("redisstore: create: %w: %w", stet.ErrFull, err)
	case err != nil:
		return stet.Record{}, fmt.Errorf("redisstore: create: %w", err)
	case got[0] == "exists":
		have, err := record(got, p.member)
		if err != nil {
			return stet.Record{}, fmt.Errorf("redisstore: create: %w", err)
		}
		return have, stet.ErrExists
	}
	if err := stamp(&r.Head, got[1:]); err != nil {
		return stet.Record{}, fmt.Errorf("redisstore: create: %w", err)
	}
	return r, nil
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	p := s.place(id)
	got, err := s.run(ctx, getScript, p.record, p.shard, false)
	switch {
	case err != nil:
		return stet.Record{}, fmt.Errorf("redisstore: get: %w", err)
	case got[0] == "gone":
		return stet.Record{}, stet.ErrNotFound
	}
	r, err := record(got, p.member)
	if err != nil {
		return stet.Record{}, fmt.Errorf("redisstore: get: %w", err)
	}
	return r, nil
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if err := valid(&h); err != nil {
		return stet.Head{}, err
	}
	p := s.place(h.ID)
	body, keep := "", "1"
	if b != nil {
		body, keep = encodeBody(b, p.member), "0"
	}
	life, ended, note := "0", "none", ""
	if h.CreatedAt.IsZero() {
		life = "1"
	}
	switch {
	case h.State == stet.Completed && (h.CompletedAt.IsZero() || life == "1"):
		ended = "now"
	case (h.State == stet.Completed || h.State == stet.Expired) && !h.CompletedAt.IsZero():
		ended = "keep"
	}
	if h.Note != nil {
		note = encodeEntry(&h)
	}
	args := append(s.write(&p, &h, body), versionText(prev), keep, life, ended, note)
	got, err := s.run(ctx, replaceScript, p.record, p.shard, true, args...)
	switch {
	case err != nil:
		return stet.Head{}, fmt.Errorf("redisstore: replace: %w", err)
	case got[0] == "gone":
		return stet.Head{}, stet.ErrNotFound
	case got[0] == "stale":
		have, _, err := parse(got, p.member)
		if err != nil {
			return stet.Head{}, fmt.Errorf("redisstore: replace: %w", err)
		}
		return have, stet.ErrStale
	}
	if err := stamp(&h, got[1:]); err != nil {
		return stet.Head{}, fmt.Errorf("redisstore: replace: %w", err)
	}
	return h, nil
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	p := s.place(id)
	got, err := s.run(ctx, deleteScript, p.record, p.shard, true, p.member, versionText(prev))
	switch {
	case err != nil:
		return fmt.Errorf("redisstore: delete: %w", err)
	case got[0] == "gone":
		return stet.ErrNotFound
	case got[0] == "stale":
		return stet.ErrStale
	}
	return nil
}

// stamp sets what the server's clock had to say: now, created, updated, due, ended.
func stamp(h *stet.Head, at []any) error {
	if len(at) != 5 {
		return errTorn
	}
	var us [5]int64
	for i := range at {
		text, _ := at[i].(string)
		var err error
		if us[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return errTorn
		}
	}
	h.AsOf, h.CreatedAt, h.UpdatedAt, h.DueAt, h.CompletedAt = instant(us[0]), instant(us[1]), instant(us[2]), instant(us[3]), instant(us[4])
	h.DueIn = 0
	return nil
}

// record decodes an answer with a record: what it is, now, the record.
func record(got []any, member string) (stet.Record, error) {
	h, rest, err := parse(got, member)
	if err != nil {
		return stet.Record{}, err
	}
	b, ok := decodeBody(rest, member)
	if !ok {
		return stet.Record{}, fmt.Errorf("%w: its body", stet.ErrCorrupt)
	}
	return stet.Record{Head: h, Body: b}, nil
}

// parse decodes the head of such an answer, and returns the rest.
func parse(got []any, member string) (h stet.Head, rest string, err error) {
	if len(got) != 3 {
		return h, "", errTorn
	}
	now, _ := got[1].(string)
	us, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return h, "", errTorn
	}
	value, _ := got[2].(string)
	h, rest, ok := decodeValue(value, member)
	if !ok {
		return stet.Head{}, "", fmt.Errorf("%w: its head", stet.ErrCorrupt)
	}
	h.AsOf = instant(us)
	return h, rest, nil
}

// Pauses of a wait between two looks.
const firstLook, longestLook = 25 * time.Millisecond, time.Second

// Wait implements [stet.Waiter], by looking again and again.
func (s *Store) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	p := s.place(id)
	version := versionText(seen)
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		got, err := s.client.Do(ctx, p.record, []string{"GETRANGE", p.record, "1", "8"})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || got[0] != version {
			return nil // who waits looks for itself
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
