package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]DSN{
		"memory:":                      {Scheme: "memory"},
		"memory:?max_keys=5":           {Scheme: "memory", MaxKeys: 5},
		"file:records":                 {Scheme: "file", Path: "records"},
		"file:/var/lib/stet":           {Scheme: "file", Path: "/var/lib/stet"},
		"sqlite:stet.db":               {Scheme: "sqlite", Path: "stet.db"},
		"sqlite:../a b/stet.db":        {Scheme: "sqlite", Path: "../a b/stet.db"},
		"SQLite:stet.db":               {Scheme: "sqlite", Path: "stet.db"},
		"sqlite:///var/lib/x.db":       {Scheme: "sqlite", Path: "///var/lib/x.db"},
		`sqlite:C:\data\stet.db`:       {Scheme: "sqlite", Path: `C:\data\stet.db`},
		"mysql://u:p%40w@h/d?tls=true": {Scheme: "mysql", URL: "mysql://u:p%40w@h/d?tls=true"},
		"postgres:///d?host=/run/pg":   {Scheme: "postgres", URL: "postgres:///d?host=/run/pg"},
		"postgres://u@/d?host=/run/pg": {Scheme: "postgres", URL: "postgres://u@/d?host=/run/pg"},
		"postgresql://u:p@h/d":         {Scheme: "postgres", URL: "postgres://u:p@h/d"},
		"file:records:of:yesterday":    {Scheme: "file", Path: "records:of:yesterday"},
	} {
		got, err := Parse(s)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", s, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for s, want := range map[string]string{
		"":                                     "a store's address begins with memory:, file:, sqlite:, postgres:, mysql: or redis:, as in sqlite:stet.db",
		"stet.db":                              "a store's address begins with memory:, file:, sqlite:, postgres:, mysql: or redis:, as in sqlite:stet.db",
		"memory:x":                             "memory: has no path; its only parameter is ?max_keys=1000000",
		"memory:?max_key=5":                    `memory: has no parameter "max_key": its only one is max_keys`,
		"memory:?max_keys=0":                   "max_keys is one whole number of at least 1",
		"memory:?max_keys=many":                "max_keys is one whole number of at least 1",
		"memory:?%zz":                          "the parameters of memory: cannot be read; write memory:?max_keys=1000000",
		"file:":                                "file: needs a directory, as in file:stet-records",
		"sqlite:":                              "sqlite: needs a file, as in sqlite:stet.db",
		"sqlite::memory:":                      "for records in memory use memory: instead",
		"sqlite:x.db?mode=ro":                  "sqlite: takes a path and no parameters",
		"slqite:x":                             `there is no store "slqite:"; did you mean sqlite?; there are memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, redis://HOST, redis+cluster://HOST,HOST and redis+sentinel://HOST,HOST/NAME`,
		"etcd:x":                               `there is no store "etcd:"; there are memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, redis://HOST, redis+cluster://HOST,HOST and redis+sentinel://HOST,HOST/NAME`,
		"postgres://u:pw@h":                    "postgres: needs a user, a host and a database, as in postgres://USER:PASSWORD@HOST/DATABASE or postgres:///DATABASE?host=/var/run/postgresql",
		"postgres:///d":                        "postgres: needs a user, a host and a database, as in postgres://USER:PASSWORD@HOST/DATABASE or postgres:///DATABASE?host=/var/run/postgresql",
		"postgres:///?host=/run":               "postgres: needs a user, a host and a database, as in postgres://USER:PASSWORD@HOST/DATABASE or postgres:///DATABASE?host=/var/run/postgresql",
		"redis+sentinel://u:pw@a,b":            "redis+sentinel: sentinels watch a server by its name: write redis+sentinel://HOST:26379,HOST:26379/NAME",
		"redis+sentinel://u:pw@a/m/x":          "redis+sentinel: the database is a number, as in redis://127.0.0.1:6379/0",
		"postgres://u@h/d?password=pw":         "postgres: user and password stand before the @, as in postgres://USER:PASSWORD@HOST/DATABASE",
		"postgres://u:pw@h/d?sslmode=none":     "postgres: a parameter cannot be read; there are sslmode, pool_max_conns, default_query_exec_mode and others of pgx",
		"redis:h":                              "redis: write redis://HOST:6379/0, redis+cluster://HOST:6379,HOST:6379 or redis+sentinel://HOST:26379,HOST:26379/NAME",
		"redis://u:pw@":                        "redis: it needs a host, as in redis://127.0.0.1:6379",
		"redis://u:pw@a,b":                     "redis: several hosts are a cluster, redis+cluster://HOST,HOST, or the sentinels of one server, redis+sentinel://HOST,HOST/NAME",
		"redis://a/x":                          "redis: the database is a number, as in redis://127.0.0.1:6379/0",
		"redis+cluster://a,b/1":                "redis+cluster: a cluster has one database: leave out what comes after the hosts",
		"redis://a?wait=x":                     "redis: wait is how many replicas confirm a write, a whole number",
		"redis://a?await=1":                    `redis: it has no parameter "await"; there are wait, prefix, durable, ca_file, sentinel_user, sentinel_password`,
		"redis://a?%zz":                        "redis: its parameters cannot be read; there are wait, prefix, durable, ca_file, sentinel_user, sentinel_password",
		"redis://a?wait=1&wait=2":              "redis: wait has one value",
		"redis://a?prefix=":                    "redis: prefix has one value",
		"redis://a?prefix={a}":                 "redis: prefix begins the names of all keys, and has no braces, asterisks or blanks",
		"redis://a?durable=yes":                "redis: durable has one value, durable=service: the service that runs the server keeps what it acknowledges, whatever its settings say",
		"redis://a?ca_file=ca.pem":             "redis: a ca_file is for connections with TLS: write rediss://",
		"redis+cluster://a?ca_file=ca.pem":     "redis+cluster: a ca_file is for connections with TLS: write rediss+cluster://",
		"redis://a?sentinel_password=pw":       "redis: sentinel_user and sentinel_password are for redis+sentinel://HOST,HOST/NAME",
		"redis+sentinel://a/m?sentinel_user=u": "redis+sentinel: sentinel_user needs sentinel_password",
		"redis://u:%pw@a":                      "redis: the user and password cannot be read; write %40 for an @ in them",
		"mysql:stet":                           "mysql: needs a user, a host and a database, as in mysql://USER:PASSWORD@HOST/DATABASE",
		"mysql://u:pw@h":                       "mysql: needs a user, a host and a database, as in mysql://USER:PASSWORD@HOST/DATABASE",
		"mysql://u:pw@h/d/e":                   "mysql: needs a user, a host and a database, as in mysql://USER:PASSWORD@HOST/DATABASE",
		"mysql://h/d":                          "mysql: needs a user, a host and a database, as in mysql://USER:PASSWORD@HOST/DATABASE",
		"mysql://u:p%wpw@h/d":                  "the address of mysql: cannot be read; write mysql://USER:PASSWORD@HOST/DATABASE, with %40 for an @ in the password",
		"mysql://u:pw@h/d?tsl=true":            `mysql: has no parameter "tsl": its only one is tls`,
		"mysql://u:pw@h/d?tls=maybe":           "mysql: tls is one of true, false, preferred and skip-verify",
		"http://user:pw@host/abc":              `there is no store "http:"; there are memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, redis://HOST, redis+cluster://HOST,HOST and redis+sentinel://HOST,HOST/NAME`,
	} {
		_, err := Parse(s)
		if err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v, want %s", s, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("Parse(%q) tells the password", s)
		}
	}
}

func TestParseCacheErrors(t *testing.T) {
	const forms = "a cache is memory:, memory:?max_bytes=67108864, redis://HOST:6379/0 or redis+cluster://HOST,HOST"
	for s, want := range map[string]string{
		"memory":                     forms,
		"redsi://u:pw@h":             forms + "; did you mean redis?",
		"postgres://u:pw@h/d":        "postgres: cannot be a cache: " + forms,
		"redis://u:pw@h/x":           "redis: the database is a number, as in redis://127.0.0.1:6379/0",
		"redis+cluster://u:pw@h,i/1": "redis+cluster: a cluster has one database: leave out what comes after the hosts",
		"memory:?max_byte=1":         `memory: as a cache has no parameter "max_byte": its only one is max_bytes`,
		"memory:?max_bytes=64MB":     "max_bytes is one whole number of at least 1048576",
		"memory:?max_bytes=1000":     "max_bytes is one whole number of at least 1048576",
	} {
		if _, err := ParseCache(s, DSN{}); err == nil || err.Error() != want {
			t.Errorf("ParseCache(%q): %v, want %s", s, err, want)
		}
	}
}

// A cache in memory is there by default where a replay costs more than a look into it, and no
// server shares its work.
func TestDefaultCache(t *testing.T) {
	for store, want := range map[string]bool{"sqlite:x.db": true, "file:x": true, "redis://h": true, "rediss+cluster://h,i": true,
		"redis+sentinel://h/m": true, "memory:": false, "postgres://u@h/d": false, "mysql://u@h/d": false} {
		d, err := Parse(store)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := ParseCache("auto", d); err != nil || (c != nil) != want || c != nil && *c != (Cache{}) {
			t.Errorf("%s has the cache %v, %v; want one: %v", store, c, err, want)
		}
		for _, none := range []string{"off", ""} {
			if c, err := ParseCache(none, d); err != nil || c != nil {
				t.Errorf("%s with %q has the cache %v, %v", store, none, c, err)
			}
		}
		if c, err := ParseCache("memory:", d); err != nil || c == nil {
			t.Errorf("%s with memory: has the cache %v, %v", store, c, err)
		}
	}
}

func TestRedis(t *testing.T) {
	for address, want := range map[string]string{
		"redis://u:p%40ss@db.example":             "redis://db.example:6379",
		"rediss://:pass@db.example:7000/3?wait=2": "rediss://db.example:7000/3?wait=2",
		"redis+cluster://a:1,[::1]:2,c":           "redis+cluster://a:1,[::1]:2,c:6379",
		"rediss+cluster://u:pass@a:1,b:2?wait=1":  "rediss+cluster://a:1,b:2?wait=1",
		"redis+sentinel://u:pass@a,b:2/main":      "redis+sentinel://a:26379,b:2/main",
		"rediss+sentinel://a/main/3?wait=1":       "rediss+sentinel://a:26379/main/3?wait=1",
	} {
		d, err := Parse(address)
		if err != nil || d.String() != want || !d.Shared() || !d.Persistent() {
			t.Errorf("%s: %s, %v", address, d, err)
		}
		p, err := parseRedis(d.URL, d.redisKind())
		if err != nil || strings.Contains(address, "p%40ss") && (p.password != "p@ss" || p.user != "u") {
			t.Errorf("%s: %+v, %v", address, p, err)
		}
	}
}

// What is printed tells no password; what is connected to has it.
func TestServer(t *testing.T) {
	d, err := Parse("mysql://stet:p%40ss@db.example/idempotency?tls=skip-verify")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.String(); got != "mysql://stet:xxxxx@db.example/idempotency?tls=skip-verify" || !d.Shared() || !d.Persistent() {
		t.Errorf("%s, shared: %v, persistent: %v", got, d.Shared(), d.Persistent())
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqlConfig(u)
	if err != nil || c.User != "stet" || c.Passwd != "p@ss" || c.Addr != "db.example:3306" || c.DBName != "idempotency" || c.TLSConfig != "skip-verify" {
		t.Errorf("%s at %s, database %s, TLS %s, %v", c.User, c.Addr, c.DBName, c.TLSConfig, err)
	}
	if _, err := Parse("mysql://u@[::1]:3307/d"); err != nil {
		t.Error(err)
	}
}

// The release build knows nothing of faults.
func TestNoFaults(t *testing.T) {
	if faultsBuilt {
		t.Skip("this is the build for tests")
	}
	if _, err := Parse("fault+memory:"); err == nil || !strings.Contains(err.Error(), `there is no store "fault+memory:"`) {
		t.Errorf("%v", err)
	}
}

// A DSN's text names the same store.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"memory:?max_keys=5", "file:a/b", "sqlite:stet.db", "redis://x", "", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err != nil {
			return
		}
		if d.URL != "" { // whose text hides the password
			return
		}
		if again, err := Parse(d.String()); err != nil || again != d {
			t.Errorf("%q is %+v, and %q is %+v, %v", s, d, d.String(), again, err)
		}
	})
}

// A server that may lose records is there: it is not waited for, and its error says how it is taken
// (B05).
func TestVolatileIsNotUnreachable(t *testing.T) {
	d, err := Parse("postgres://u:secret@h/d")
	if err != nil {
		t.Fatal(err)
	}
	err = d.Failed(fmt.Errorf("open: %w: fsync is off", stet.ErrVolatile))
	if errors.Is(err, ErrUnreachable) || !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), "store.allow_volatile") ||
		strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
