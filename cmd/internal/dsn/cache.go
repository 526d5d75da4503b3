package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/spell"
)

// Cache is the address of a front before a store.
type Cache struct {
	MaxBytes int64 // memory: 0 is the default
	Server   *DSN  // nil: it is in the process's memory
}

// minCache is the smallest cache in memory: it keeps responses of up to an eighth of its size, and
// a smaller one would keep none.
const minCache = 1 << 20

var errCache = errors.New("a cache is memory:, memory:?max_bytes=67108864, redis://HOST:6379/0 or redis+cluster://HOST,HOST")

// ParseCache takes the address of a front apart. The error quotes no more than [Parse]'s.
func ParseCache(s string) (c Cache, err error) {
	if rest, ok := strings.CutPrefix(s, "memory:"); ok {
		c.MaxBytes, err = maxBytes(rest)
		return c, err
	}
	d, err := Parse(s)
	switch {
	case strings.HasPrefix(d.Scheme, "redis") && err != nil && slices.Contains(schemes, d.Scheme):
		return c, err
	case err != nil:
		return c, fmt.Errorf("%w%s", errCache, spell.Hint(d.Scheme, []string{"memory", "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"}))
	case !strings.HasPrefix(d.Scheme, "redis") || d.Faulty:
		return c, fmt.Errorf("%s: cannot be a cache: %w", d.Scheme, errCache)
	}
	d.Forget, d.Copies = true, true // a cache may lose its copies
	return Cache{Server: &d}, nil
}

func maxBytes(rest string) (int64, error) {
	path, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil || path != "" {
		return 0, errCache
	}
	for name, values := range params {
		if name != "max_bytes" {
			return 0, fmt.Errorf("memory: as a cache has no parameter %q%s; its only one is max_bytes", name, spell.Hint(name, []string{"max_bytes"}))
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < minCache || len(values) > 1 {
			return 0, fmt.Errorf("max_bytes is one whole number of at least %d", minCache)
		}
		return n, nil
	}
	return 0, nil
}

// String is the address without what is secret in it; fit for a log.
func (c Cache) String() string {
	switch {
	case c.Server != nil:
		return c.Server.String()
	case c.MaxBytes != 0:
		return "memory:?max_bytes=" + strconv.FormatInt(c.MaxBytes, 10)
	}
	return "memory:"
}

// Same reports whether both name the same database of the same server: copies and records would be
// mixed up there.
func (c Cache) Same(d DSN) bool {
	if c.Server == nil || !strings.HasPrefix(d.Scheme, "redis") {
		return false
	}
	a, errA := parseRedis(c.Server.URL, c.Server.redisKind())
	b, errB := parseRedis(d.URL, d.redisKind())
	if errA != nil || errB != nil || a.db != b.db || a.master != b.master {
		return false
	}
	for _, x := range a.addrs {
		for _, y := range b.addrs {
			if x == y {
				return true
			}
		}
	}
	return false
}
