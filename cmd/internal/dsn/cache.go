package dsn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/spell"
)

// Cache is the address of a cache before a store.
type Cache struct {
	MaxBytes int64 // memory: 0 is the default
	Server   *DSN  // nil: it is in the process's memory
}

// minCache is the smallest cache in memory: it keeps responses of up to an eighth of its size, and
// a smaller one would keep none.
const minCache = 1 << 20

var errCache = errors.New("a cache is memory:, memory:?max_bytes=67108864, redis://HOST:6379/0 or redis+cluster://HOST,HOST")

// ParseCache takes the address of a cache before the store d apart. It returns nil if there is to
// be none: "off" says so, and "auto" says so of stores in memory, where a cache saves nothing, and
// of databases on a server. The error quotes no more than [Parse]'s.
func ParseCache(s string, d DSN) (*Cache, error) {
	if rest, ok := strings.CutPrefix(s, "memory:"); ok {
		n, err := maxBytes(rest)
		return &Cache{MaxBytes: n}, err
	}
	switch {
	case s == "auto" && (d.Path != "" || d.isRedis()):
		return &Cache{}, nil
	case s == "", s == "off", s == "auto":
		return nil, nil
	}
	at, err := Parse(s)
	switch {
	case err != nil && at.isRedis() && slices.Contains(schemes, at.Scheme):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w%s", errCache, spell.Hint(at.Scheme, caches()))
	case !at.isRedis() || at.Faulty:
		return nil, fmt.Errorf("%s: cannot be a cache: %w", at.Scheme, errCache)
	}
	at.Forget, at.Copies = true, true // a cache may lose its copies
	return &Cache{Server: &at}, nil
}

// caches are the words that the address of a cache begins with.
func caches() []string {
	servers := slices.DeleteFunc(slices.Clone(schemes), func(s string) bool { return !strings.HasPrefix(s, "redis") })
	return append([]string{"memory"}, servers...)
}

func maxBytes(rest string) (int64, error) {
	path, query, _ := strings.Cut(rest, "?")
	values, err := parameter(query, "max_bytes", "memory: as a cache", errCache)
	switch {
	case path != "":
		return 0, errCache
	case err != nil || values == nil:
		return 0, err
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n < minCache || len(values) > 1 {
		return 0, fmt.Errorf("max_bytes is one whole number of at least %d", minCache)
	}
	return n, nil
}

// Same reports whether both name the same database of the same server: copies and records would be
// mixed up there.
func (c Cache) Same(d DSN) bool {
	if c.Server == nil || !d.isRedis() {
		return false
	}
	a, errA := parseRedis(c.Server.URL, c.Server.redisKind())
	b, errB := parseRedis(d.URL, d.redisKind())
	if errA != nil || errB != nil || a.db != b.db || a.master != b.master {
		return false
	}
	return slices.ContainsFunc(a.addrs, func(x string) bool { return slices.Contains(b.addrs, x) })
}
