package stet

import (
	"cmp"
	"fmt"
	"os"
	"time"
)

// Config configures an [Engine]. The zero value is ready to use.
type Config struct {
	// Policy is used for requests that bring none of their own.
	Policy Policy
	// StoreTimeout bounds how long one decision, and each single write of a claim, may wait for the
	// store. 0 means 2 s.
	StoreTimeout time.Duration
	// Pepper is the key of the HMAC behind [Engine.Tag], so that a reader of a log cannot test
	// guesses of a key. Processes whose logs are read together share it. It may be empty: a key
	// that can be guessed can then be recognised by its tag.
	Pepper []byte
	// Holder names this process in records. "" means host:pid.
	Holder string
	// MaxWaiters bounds how many requests of this process wait for others at a time. One more is
	// told at once that its key is in progress. 0 means 10,000.
	MaxWaiters int
	// MaxUnstored bounds, in bytes, what the engine keeps in memory because the store does not take
	// it at the moment: results, late answers and doubts of executions that have ended here. Beyond
	// it nothing new is executed ([ErrUnstored]); what runs is still kept, and nothing is forgotten
	// before the process ends. 0 means 64 MiB.
	MaxUnstored int64
	// Observe, if it is non-nil, is called with every event, synchronously and from many
	// goroutines. It must be fast.
	Observe func(Event)
}

// Policy is what may differ from route to route. The zero value is ready to use.
type Policy struct {
	// Lease is how long a claim lives without being renewed. A held claim is renewed every third of
	// it. 0 means 60 s.
	Lease time.Duration
	// Execution is how long the handler may take. 0 means 30 s; [Never] means no limit.
	Execution time.Duration
	// Rules are stored with the record. A Retain of 0 means 24 h.
	Rules
}

// What a zero field of [Config] and [Policy] means.
const (
	defaultStoreTimeout = 2 * time.Second
	defaultLease        = time.Minute
	defaultExecution    = 30 * time.Second
	defaultRetain       = 24 * time.Hour
	defaultMaxWaiters   = 10_000
	defaultMaxUnstored  = 64 << 20
)

func (c Config) withDefaults() Config {
	c.Policy = c.Policy.withDefaults()
	c.StoreTimeout = cmp.Or(c.StoreTimeout, defaultStoreTimeout)
	c.MaxWaiters = cmp.Or(c.MaxWaiters, defaultMaxWaiters)
	c.MaxUnstored = cmp.Or(c.MaxUnstored, defaultMaxUnstored)
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		c.Holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return c
}

func (p Policy) withDefaults() Policy {
	p.Lease = cmp.Or(p.Lease, defaultLease)
	p.Execution = cmp.Or(p.Execution, defaultExecution)
	p.Retain = cmp.Or(p.Retain, defaultRetain)
	return p
}

// usable is how much of a lease its holder relies on. Local time only ever shortens a lease (I13):
// the last tenth is for clocks that do not run alike.
func (p *Policy) usable() time.Duration { return p.Lease - p.Lease/10 }

// Validate returns an error that names the first field that is out of bounds, with its value and
// the bounds.
func (p Policy) Validate() error {
	return p.check()
}

func (c *Config) validate() error { return cmp.Or(configBounds.Check(c), c.Policy.Validate()) }
