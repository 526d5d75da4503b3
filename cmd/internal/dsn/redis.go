package dsn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
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

	sentinelUser, sentinelPassword string
	prefix, caFile                 string
	durable                        bool // by the service that runs the server
}

// redisParameters are those of an address.
var redisParameters = []string{"wait", "prefix", "durable", "ca_file", "sentinel_user", "sentinel_password"}

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

// redis takes //USER:PASSWORD@HOST:PORT,HOST:PORT/DB?wait=N&… apart, where sentinels have /NAME/DB.
func (d *DSN) redis(rest string) error {
	p, err := parseRedis(rest, d.redisKind())
	if err == nil && p.caFile != "" && !strings.HasPrefix(d.Scheme, "rediss") {
		err = fmt.Errorf("a ca_file is for connections with TLS: write %s://", strings.Replace(d.Scheme, "redis", "rediss", 1))
	}
	if err != nil {
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
	return p, p.parameters(query, kind)
}

// parameters takes apart what follows the question mark.
func (p *redisParts) parameters(query, kind string) error {
	all, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("its parameters cannot be read; there are %s", strings.Join(redisParameters, ", "))
	}
	for name, values := range all {
		if !slices.Contains(redisParameters, name) {
			return fmt.Errorf("it has no parameter %q; there are %s", name, strings.Join(redisParameters, ", "))
		}
		if len(values) > 1 || values[0] == "" {
			return fmt.Errorf("%s has one value", name)
		}
	}
	p.prefix, p.caFile = all.Get("prefix"), all.Get("ca_file")
	p.sentinelUser, p.sentinelPassword = all.Get("sentinel_user"), all.Get("sentinel_password")
	switch durable := all.Get("durable"); {
	case durable != "" && durable != "service":
		return errors.New("durable has one value, durable=service: the service that runs the server keeps what it acknowledges, whatever its settings say")
	case strings.ContainsAny(p.prefix, "{}* "):
		return errors.New("prefix begins the names of all keys, and has no braces, asterisks or blanks")
	case kind != sentinels && p.sentinelUser+p.sentinelPassword != "":
		return errors.New("sentinel_user and sentinel_password are for redis+sentinel://HOST,HOST/NAME")
	case p.sentinelUser != "" && p.sentinelPassword == "":
		return errors.New("sentinel_user needs sentinel_password")
	}
	p.durable = all.Has("durable")
	if all.Has("wait") {
		if p.wait, err = strconv.Atoi(all.Get("wait")); err != nil || p.wait < 0 {
			return errors.New("wait is how many replicas confirm a write, a whole number")
		}
	}
	return nil
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
	open := url.Values{}
	for parameter, value := range map[string]string{"prefix": p.prefix, "ca_file": p.caFile, "sentinel_user": p.sentinelUser} {
		if value != "" {
			open.Set(parameter, value)
		}
	}
	if p.wait != 0 {
		open.Set("wait", strconv.Itoa(p.wait))
	}
	if p.durable {
		open.Set("durable", "service")
	}
	if len(open) > 0 {
		name += "?" + open.Encode()
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
		var err error
		if secure, err = trust(p.caFile); err != nil {
			return nil, nil, d.unreachable(err)
		}
	}
	o := rueidis.ClientOption{InitAddress: p.addrs, Username: p.user, Password: p.password, SelectDB: p.db, TLSConfig: secure,
		Dialer: net.Dialer{Timeout: 5 * time.Second}, ForceSingleClient: d.redisKind() == single}
	if p.master != "" { // the sentinels' password is another one, if they have any
		o.Sentinel = rueidis.SentinelOption{MasterSet: p.master, Username: p.sentinelUser, Password: p.sentinelPassword, Dialer: o.Dialer, TLSConfig: secure}
	}
	c, err := rueidis.NewClient(rueidisclient.Options(o))
	if err != nil {
		if said, ok := rueidis.IsRedisErr(err); ok {
			err = redisstore.ServerError(said.Error())
		}
		return nil, nil, d.unreachable(err)
	}
	config := redisstore.Config{Prefix: p.prefix, Wait: p.wait, AllowVolatile: d.Forget, DurableByService: p.durable, Copies: d.Copies, Warn: warn}
	if d.Copies { // a server has many names: copies must not meet the records they are of, or they would take their place
		config.Prefix, config.Linger = cmp.Or(p.prefix, "stet")+"-cache", copiesLinger
	}
	s, err := redisstore.Open(ctx, rueidisclient.New(c), config)
	if err != nil {
		c.Close()
		return nil, nil, d.Failed(err)
	}
	return s, func() error {
		err := s.Close()
		c.Close()
		return err
	}, nil
}

// trust is how servers prove who they are: by the authorities in a file, or by those of the host if
// it is "".
func trust(file string) (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return secure, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	secure.RootCAs = x509.NewCertPool()
	if !secure.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form", file)
	}
	return secure, nil
}
