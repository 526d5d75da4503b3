package blackbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/sqlstore"
)

// Stores on servers run the same cases behind the gateway. Their clock is the server's, and cannot
// be moved: what takes time is in the tests of each store, as is what a broken connection does.
var serverStores = []string{"postgres", "mysql", "redis", "redis+cluster", "postgres" + cached + sealed}

// cached after a store's name: a Redis is in front of it. What runs is not in it: on a busy machine
// the front may miss that it has ended.
const cached = ", cached"

const lacksClock = "the clock is the server's"

func TestGatewayOnServers(t *testing.T) {
	for _, store := range serverStores {
		t.Run(store, func(t *testing.T) {
			if !slices.Contains(gated, "gateway "+store) { // no server need be started
				tier.Campaign(t, "four targets are in the gate")
			}
			target := gatewayTarget(store)
			target.Lacks = map[Need]string{NeedClock: lacksClock}
			if store == "redis+cluster" {
				target.Lacks[NeedOwn] = "a cluster has one database, which all cases share"
			}
			if _, err := serverDSN(t, strings.Split(store, ",")[0]); err != nil { // starts the server, or skips
				t.Fatal(err)
			}
			runCases(t, target)
		})
	}
}

var databases atomic.Int64

// making databases is one thing at a time: a template can be copied by one connection
// at a time.
var making sync.Mutex

// serverDSN makes an empty store on the shared server, and names it as the gateway takes it.
func serverDSN(t testing.TB, store string) (string, error) {
	making.Lock()
	defer making.Unlock()
	n := databases.Add(1)
	name := fmt.Sprintf("stet_%d_%d", os.Getpid(), n)
	switch store {
	case "postgres":
		s := testserver.Postgres(t)
		if err := execute("pgx", s.PostgresDSN("postgres"), "CREATE DATABASE "+name+" STRATEGY file_copy"); err != nil {
			return "", err
		}
		return s.PostgresDSN(name) + "&pool_max_conns=12", migrated("pgx", s.PostgresDSN(name), sqlstore.Postgres)
	case "mysql":
		s := testserver.MariaDB(t)
		if err := execute("mysql", s.MariaDBDSN(""), "CREATE DATABASE "+name); err != nil {
			return "", err
		}
		return "mysql://root@" + s.Addr + "/" + name, migrated("mysql", s.MariaDBDSN(name), sqlstore.MySQL)
	case "redis":
		s := testserver.Redis(t)
		s.KeepLog(t)
		return fmt.Sprintf("redis://%s/%d", s.Addr, n), nil
	case "redis+cluster":
		c := testserver.RedisCluster(t)
		for _, node := range c.Nodes {
			node.KeepLog(t)
		}
		return "redis+cluster://" + c.Addrs()[0], nil
	}
	return "", fmt.Errorf("no server store called %q", store)
}

func execute(driver, dsn, statement string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}

func migrated(driver, dsn string, d sqlstore.Dialect) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	return errors.Join(sqlstore.Migrate(context.Background(), db, d), db.Close())
}
