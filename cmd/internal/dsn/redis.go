package dsn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
)

// redisParts are what the address of a Redis says.
type redisParts struct {
	user, password string
	addrs          []string
	master         string // what sentinels call the server they watch; "" without sentinels
	db, wait       int
}

// What the servers of an address are to each other, as the scheme says.
const (
	single    = ""
	cluster   = "cluster"
	sentinels = "sentinel"
)

func (d DSN) redisKind() string {
	_, kind, _ := strings.Cut(d.Scheme, "+")
	return kind
}

func (d *DSN) isRedis() bool { return strings.HasPrefix(d.Scheme, "redis") }

// redis takes //USER:PASSWORD@HOST:PORT,HOST:PORT/DB?wait=N apart, where sentinels have /NAME/DB.
func (d *DSN) redis(rest string) error {
	if _, err := parseRedis(rest, d.redisKind()); err != nil {
		return fmt.Errorf("%s: %w", d.Scheme, err)
	}
	d.URL = rest
	return nil
}

func parseRedis(rest, kind string) (p redisParts, err error) {
	authority, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return p, errors.New("write redis://HOST:6379/0, redis+cluster://HOST:6379,HOST:6379 or redis+sentinel://HOST:26379,HOST:26379/NAME")
	}
	authority, query, _ := strings.Cut(authority, "?")
	authority, db, _ := strings.Cut(authority, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		u, err := url.Parse("//" + authority[:i] + "@host")
		if err != nil || u.User == nil {
			return p, errors.New("the user and password cannot be read; write %40 for an @ in them")
		}
		p.user = u.User.Username()
		p.password, _ = u.User.Password()
		authority = authority[i+1:]
	}
	usual := "6379"
	if kind == sentinels {
		usual = "26379"
		p.master, db, _ = strings.Cut(db, "/")
		if p.master, err = url.PathUnescape(p.master); err != nil || p.master == "" {
			return p, errors.New("sentinels watch a server by its name: write redis+sentinel://HOST:26379,HOST:26379/NAME")
		}
	}
	for host := range strings.SplitSeq(authority, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = host, usual
		}
		if name == "" {
			return p, errors.New("it needs a host, as in redis://127.0.0.1:6379")
		}
		p.addrs = append(p.addrs, net.JoinHostPort(strings.Trim(name, "[]"), port))
	}
	switch {
	case kind == single && len(p.addrs) > 1:
		return p, errors.New("several hosts are a cluster, redis+cluster://HOST,HOST, or the sentinels of one server, redis+sentinel://HOST,HOST/NAME")
	case kind == cluster && db != "":
		return p, errors.New("a cluster has one database: leave out what comes after the hosts")
	case db != "":
		if p.db, err = strconv.Atoi(db); err != nil || p.db < 0 {
			return p, errors.New("the database is a number, as in redis://127.0.0.1:6379/0")
		}
	}
	wait, err := parameter(query, "wait", "it", errors.New("its parameters cannot be read; the only one is wait"))
	if err != nil || wait == nil {
		return p, err
	}
	if p.wait, err = strconv.Atoi(wait[0]); err != nil || p.wait < 0 {
		return p, errors.New("wait is how many replicas confirm a write, a whole number")
	}
	return p, nil
}

// redisName is the address without what is secret in it.
func (d DSN) redisName() string {
	p, err := parseRedis(d.URL, d.redisKind())
	if err != nil {
		return d.Scheme + ":"
	}
	name := d.Scheme + "://" + strings.Join(p.addrs, ",")
	if p.master != "" {
		name += "/" + url.PathEscape(p.master)
	}
	if p.db != 0 {
		name += "/" + strconv.Itoa(p.db)
	}
	if p.wait != 0 {
		name += "?wait=" + strconv.Itoa(p.wait)
	}
	return name
}

// copiesLinger is how long a copy that is too old to be used stays in Redis; no reaper removes
// copies.
const copiesLinger = time.Minute

// openRedis connects. There is no schema.
func (d DSN) openRedis(ctx context.Context, warn func(string)) (stet.Store, func() error, error) {
	p, _ := parseRedis(d.URL, d.redisKind()) // Parse has read it
	var secure *tls.Config
	if strings.HasPrefix(d.Scheme, "rediss") {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	o := rueidis.ClientOption{InitAddress: p.addrs, Username: p.user, Password: p.password, SelectDB: p.db, TLSConfig: secure,
		Dialer: net.Dialer{Timeout: 5 * time.Second}, ForceSingleClient: d.redisKind() == single}
	if p.master != "" { // the sentinels are asked without a password: theirs is another one, if they have any
		o.Sentinel = rueidis.SentinelOption{MasterSet: p.master, Dialer: o.Dialer, TLSConfig: secure}
	}
	c, err := rueidis.NewClient(rueidisclient.Options(o))
	if err != nil {
		if said, ok := rueidis.IsRedisErr(err); ok {
			err = redisstore.ServerError(said.Error())
		}
		return nil, nil, d.unreachable(err)
	}
	config := redisstore.Config{Wait: p.wait, AllowVolatile: d.Forget, Warn: warn}
	if d.Copies { // a server has many names: copies must not meet the records they are of, or they would take their place
		config.Prefix, config.Linger = "stet-cache", copiesLinger
	}
	s, err := redisstore.Open(ctx, rueidisclient.New(c), config)
	if err != nil {
		c.Close()
		return nil, nil, d.Failed(err)
	}
	return s, func() error { c.Close(); return nil }, nil
}
