package dsn

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stet-dev/stet/store/sqlstore"
)

// Connections of a store on a server: those that read, those that write, and some for lists.
const (
	serverReaders = 8
	serverConns   = serverReaders + 24
)

// server takes the address of a database server apart: //USER:PASSWORD@HOST:PORT/DATABASE.
func (d *DSN) server(rest string) error {
	u, err := url.Parse(d.Scheme + ":" + rest)
	if err != nil {
		return fmt.Errorf("the address of %s: cannot be read; write %s, with %%40 for an @ in the password", d.Scheme, serverForm(d.Scheme))
	}
	database := strings.TrimPrefix(u.Path, "/")
	// Over a Unix socket the directory stands in for the host, and the system's user for the user.
	socket := d.Scheme == "postgres" && u.Hostname() == "" && strings.HasPrefix(u.Query().Get("host"), "/")
	switch {
	case socket && database != "" && !strings.Contains(database, "/") && u.Fragment == "":
	case u.Hostname() == "" || u.User.Username() == "" || database == "" || strings.Contains(database, "/") || u.Fragment != "":
		form := serverForm(d.Scheme)
		if d.Scheme == "postgres" {
			form += " or postgres:///DATABASE?host=/var/run/postgresql"
		}
		return fmt.Errorf("%s: needs a user, a host and a database, as in %s", d.Scheme, form)
	}
	if d.Scheme == "mysql" {
		_, err = mysqlConfig(u)
	} else {
		_, err = postgresConfig(u.String())
	}
	if err == nil {
		d.URL = u.String()
	}
	return err
}

func serverForm(scheme string) string { return scheme + "://USER:PASSWORD@HOST/DATABASE" }

// mysqlMode is the sql_mode of sessions, whatever the server's is.
const mysqlMode = "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"

// mysqlConfig is what the driver needs to know. What breaks a law of the store is not for a DSN to
// say.
func mysqlConfig(u *url.URL) (*mysql.Config, error) {
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	c.DBName = strings.TrimPrefix(u.Path, "/")
	c.Timeout = 5 * time.Second
	c.MaxAllowedPacket = 0        // the server's
	c.Logger = &mysql.NopLogger{} // what it would say comes as an error, too
	c.Params = map[string]string{"autocommit": "1", "completion_type": "0", "sql_mode": mysqlMode, "time_zone": "'+00:00'",
		"sql_select_limit": "18446744073709551615", "sql_big_selects": "1", "sql_safe_updates": "0"}
	tls, err := parameter(u.RawQuery, "tls", "mysql:",
		errors.New("the parameters of mysql: cannot be read; the only one is tls"))
	switch {
	case err != nil:
		return nil, err
	case tls == nil:
	case len(tls) > 1 || !slices.Contains([]string{"true", "false", "preferred", "skip-verify"}, tls[0]):
		return nil, errors.New("mysql: tls is one of true, false, preferred and skip-verify")
	default:
		c.TLSConfig = tls[0]
	}
	return c, nil
}

// Dialect is the kind of an SQL store; "" for others.
func (d DSN) Dialect() sqlstore.Dialect {
	switch dialect := sqlstore.Dialect(d.Scheme); dialect {
	case sqlstore.SQLite, sqlstore.MySQL, sqlstore.Postgres:
		return dialect
	}
	return ""
}

// connect opens the database of a server, without asking it anything.
func (d DSN) connect() (*sql.DB, error) {
	if d.Scheme == "postgres" {
		c, err := postgresConfig(d.URL)
		if err != nil {
			return nil, err
		}
		return stdlib.OpenDB(*c.ConnConfig, stdlib.OptionAfterConnect(c.AfterConnect)), nil
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, err
	}
	c, err := mysqlConfig(u)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(serverConns)
	db.SetMaxIdleConns(serverReaders)
	return db, nil
}
