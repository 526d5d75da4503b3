package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// mysqlServer is what a promise of the store rests on: settings of a server, and of a session with
// it.
type mysqlServer struct {
	maria                 bool
	version, mode, engine string
	packet                int64 // bytes of a statement at most
	readOnly              bool
	comment               string // what the server calls itself
	autocommit            int    // these three of the session
	completion            string
	behind                int64 // seconds that the session's clock is behind the server's
	cut                   bool  // its answers end early

	flush, binlog, syncBinlog int
	binlogFormat, doublewrite string

	semiSync mysqlSemiSync
}

// mysqlSemiSync is what a server that waits for replicas was told.
type mysqlSemiSync struct {
	on, waits string // ON, OFF, or "" where it knows none; whether it waits, or goes on alone
	point     string // AFTER_SYNC or AFTER_COMMIT
	timeout   int64  // milliseconds
	alone     int64  // writes, so far, that were acknowledged without a replica
	before    int64  // and of these, those that were counted before
}

// mysqlLeastPacket is the least max_allowed_packet: a record of a megabyte has to fit, and twice,
// as text.
const mysqlLeastPacket = 4 << 20

func readMySQLServer(ctx context.Context, conn asker) (s mysqlServer, err error) {
	defer func() {
		if err = fault(err); err != nil {
			err = fmt.Errorf("reading the server's settings: %w", err)
		}
	}()
	err = conn.QueryRowContext(ctx, "SELECT VERSION(), @@GLOBAL.version_comment").Scan(&s.version, &s.comment)
	if err != nil {
		return s, err
	}
	s.maria = strings.Contains(strings.ToLower(s.version), "mariadb")
	if err := s.another(); err != nil {
		return s, err
	}
	err = conn.QueryRowContext(ctx, `SELECT @@SESSION.sql_mode, @@SESSION.autocommit, @@SESSION.completion_type,
		ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())), @@SESSION.sql_select_limit < 4294967295, @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin, @@GLOBAL.binlog_format,
		@@GLOBAL.sync_binlog, @@GLOBAL.innodb_doublewrite, @@GLOBAL.max_allowed_packet, @@GLOBAL.read_only,
		(SELECT COALESCE(MAX(ENGINE), 'none that can be seen') FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'stet_records')`).
		Scan(&s.mode, &s.autocommit, &s.completion, &s.behind, &s.cut, &s.flush, &s.binlog, &s.binlogFormat, &s.syncBinlog, &s.doublewrite, &s.packet,
			&s.readOnly, &s.engine)
	if err == nil {
		err = s.semiSync.read(ctx, conn)
	}
	return s, err
}

// read asks by a statement that no server refuses: few know these settings, under one name or the
// other.
func (y *mysqlSemiSync) read(ctx context.Context, conn asker) error {
	for _, ask := range []string{"VARIABLES", "STATUS"} {
		rows, err := conn.QueryContext(ctx, "SHOW GLOBAL "+ask+" LIKE 'rpl\\_semi\\_sync\\_%'")
		err = sqltext.EachRow(rows, err, func(row sqltext.Scanner) error {
			var name, value string
			if err := row.Scan(&name, &value); err != nil {
				return err
			}
			var err error
			switch strings.NewReplacer("source", "master").Replace(strings.ToLower(name)) {
			case "rpl_semi_sync_master_enabled":
				y.on = value
			case "rpl_semi_sync_master_status":
				y.waits = value
			case "rpl_semi_sync_master_wait_point":
				y.point = value
			case "rpl_semi_sync_master_no_tx":
				y.alone, err = strconv.ParseInt(value, 10, 64)
			case "rpl_semi_sync_master_timeout":
				if y.timeout, err = strconv.ParseInt(value, 10, 64); errors.Is(err, strconv.ErrRange) {
					err = nil // it is the most then
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mysqlOthers speak MySQL's language, and are something else.
var mysqlOthers = []struct{ says, name, why string }{
	{"tidb", "TiDB", "its transactions pass over no rows that others hold in the way that MySQL's do, and it has no CHECK by default"},
	{"singlestore", "SingleStore", "its rows lie on several machines, without a unique key over all of them"},
	{"memsql", "SingleStore", "its rows lie on several machines, without a unique key over all of them"},
	{"vitess", "Vitess", "its shards know nothing of each other's locks, and a session is not one connection"},
	{"planetscale", "Vitess", "its shards know nothing of each other's locks, and a session is not one connection"},
	{"oceanbase", "OceanBase", "the store's statements were never tried on it"},
	{"starrocks", "StarRocks", "it has no transactions"},
	{"doris", "Doris", "it has no transactions"},
	{"clickhouse", "ClickHouse", "it has no transactions"},
}

// another refuses a server that the store was not made for.
func (s *mysqlServer) another() error {
	says := strings.ToLower(s.version + " " + s.comment)
	for _, o := range mysqlOthers {
		if strings.Contains(says, o.says) {
			return fmt.Errorf("the server is %s (%s): the store was made for MySQL and MariaDB with InnoDB, and would not keep its promises; %s",
				o.name, s.version, o.why)
		}
	}
	return nil
}

// usable refuses a server, a database or a data source name that the store's statements do not work
// with.
func (s *mysqlServer) usable() error {
	mode := "," + strings.ToUpper(s.mode) + ","
	switch {
	case !newEnough(s.version, s.maria):
		return fmt.Errorf("the server is %s; MySQL 8.0.16 or MariaDB 10.6 is needed, which pass over rows that others hold", s.version)
	case !strings.EqualFold(s.engine, "InnoDB"):
		return fmt.Errorf("the table stet_records has the engine %s and has to have InnoDB: without transactions a write can be there by half; "+
			"ALTER TABLE stet_records ENGINE = InnoDB, and the same for stet_history", s.engine)
	case !strings.Contains(mode, ",STRICT_TRANS_TABLES,") && !strings.Contains(mode, ",STRICT_ALL_TABLES,"):
		return errors.New("sql_mode is not strict: what does not fit would be cut off in silence; have STRICT_TRANS_TABLES in the server's sql_mode, " +
			"or in the data source name")
	case s.packet < mysqlLeastPacket:
		return fmt.Errorf("max_allowed_packet is %d and has to be at least %d, or no larger response can be kept", s.packet, mysqlLeastPacket)
	case s.autocommit != 1:
		return errors.New("the sessions of the pool have autocommit off: what they write would be lost; set autocommit=1 in the data source name")
	case s.completion != "NO_CHAIN" && s.completion != "0":
		return fmt.Errorf("the sessions of the pool have the completion_type %s: a COMMIT would begin a transaction that nothing ends; "+
			"set completion_type=0 in the data source name", s.completion)
	case s.cut:
		return errors.New("the sessions of the pool have a sql_select_limit: lists would miss records; set sql_select_limit=18446744073709551615 in the " +
			"data source name")
	case s.behind > 1:
		return errors.New("the sessions of the pool have a clock that stands still; leave the variable timestamp alone, in init_connect and in the data " +
			"source name")
	}
	return s.writable()
}

// writable refuses a server that takes no writes, or none as the store sends them.
func (s *mysqlServer) writable() error {
	switch {
	case s.readOnly:
		return errors.New(mysqlMends[mysqlReadOnly])
	case s.binlog != 0 && strings.EqualFold(s.binlogFormat, "STATEMENT"):
		return errors.New(mysqlMends[mysqlByStatement])
	}
	return nil
}

// durable is [stet.ErrVolatile] where a crash can undo what was acknowledged (W30), and says what
// to do.
func (s *mysqlServer) durable() error {
	switch {
	case s.flush != 1:
		return fmt.Errorf("%w: innodb_flush_log_at_trx_commit is %d and has to be 1: the last commits can be lost with the power",
			stet.ErrVolatile, s.flush)
	case s.binlog != 0 && s.syncBinlog != 1:
		return fmt.Errorf("%w: the server writes a binary log, sync_binlog is %d and has to be 1: a transaction that is not in the log is undone "+
			"when the server recovers, also if it was acknowledged", stet.ErrVolatile, s.syncBinlog)
	case s.doublewrite == "0" || strings.EqualFold(s.doublewrite, "OFF"):
		return fmt.Errorf("%w: innodb_doublewrite is off and has to be on: a page that was half written when the power failed cannot be repaired",
			stet.ErrVolatile)
	}
	return s.semiSync.durable()
}

// leastSemiSync is the least time, in milliseconds, for which a server has to wait for a replica
// before it goes on alone: far more than a call may take.
const leastSemiSync = 10 * 60 * 1000

// durable is [stet.ErrVolatile] where a server that was told to wait for replicas acknowledges
// without them, or shows to others what no replica has yet (S01). One that was never told so is
// taken as it is.
func (y *mysqlSemiSync) durable() error {
	switch {
	case y.on != "ON":
		return nil
	case y.waits != "ON":
		return fmt.Errorf("%w: semi-synchronous replication is on, and the server goes on without a replica (rpl_semi_sync_master_status is OFF): "+
			"what it acknowledges now is lost with it; bring a replica back", stet.ErrVolatile)
	case y.point != "AFTER_SYNC":
		return fmt.Errorf("%w: rpl_semi_sync_master_wait_point is %s and has to be AFTER_SYNC: others see a write before a replica has it",
			stet.ErrVolatile, y.point)
	case y.timeout < leastSemiSync:
		return fmt.Errorf("%w: rpl_semi_sync_master_timeout is %d and has to be %d at least: after it the server acknowledges without a replica",
			stet.ErrVolatile, y.timeout, leastSemiSync)
	case y.alone > y.before:
		return fmt.Errorf("%w: writes that waited for a replica were acknowledged without one (rpl_semi_sync_master_no_tx rose from %d to %d), as by a "+
			"KILL: they are lost if the replica takes over before it has them", stet.ErrVolatile, y.before, y.alone)
	}
	return nil
}

// checkMySQL refuses a server, a database or a data source name under which the store could not
// keep its promises.
func checkMySQL(ctx context.Context, db *sql.DB, volatile bool) (mysqlServer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return mysqlServer{}, err
	}
	defer conn.Close()
	s, err := readMySQLServer(ctx, conn)
	s.semiSync.before = s.semiSync.alone
	if err == nil {
		err = s.usable()
	}
	if err == nil && !volatile {
		err = s.durable()
	}
	if err == nil {
		err = checkFoundRows(ctx, conn)
	}
	return s, err
}

// Check implements [stet.Checker]: these settings can be changed while the server runs, and a
// failover leads to another server.
func (s *mysql) Check(ctx context.Context) error {
	var now mysqlServer
	err := s.asking(ctx, func(on asker) (err error) {
		now, err = readMySQLServer(ctx, on)
		return err
	})
	if most := s.most.Load(); err == nil && now.packet < most { // connections that are open keep the smaller one
		s.most.Store(now.packet)
	}
	if err == nil {
		err = now.writable()
	}
	if err == nil {
		now.semiSync.before = s.alone.Swap(now.semiSync.alone)
	}
	if err == nil && !s.volatile {
		err = now.durable()
	}
	return wrap("check", err)
}

// checkFoundRows tells by an UPDATE that changes nothing what the driver was told to count.
func checkFoundRows(ctx context.Context, conn *sql.Conn) error {
	res, err := conn.ExecContext(ctx, "UPDATE stet_schema SET version = version WHERE version = 1")
	if err != nil {
		return fmt.Errorf("an UPDATE of stet_schema: %w", fault(err))
	}
	n, err := res.RowsAffected()
	if err == nil && n != 0 {
		err = errors.New("the data source name sets clientFoundRows, and must not: rows that matched are then counted with those that changed, " +
			"and a group of writes could not tell a row it changed from one that should not be there")
	}
	return err
}

// newEnough: for SKIP LOCKED (MySQL 8.0.1, MariaDB 10.6) and CHECK (MySQL 8.0.16).
func newEnough(version string, maria bool) bool {
	have, least := make([]int, 3), []int{8, 0, 16}
	if maria {
		least = []int{10, 6}
	}
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2])
	return slices.Compare(have, least) >= 0
}

// setUp begins a connection of the store's own. It pins all that the statements rest on: a server,
// a user, init_connect or a data source name may have set it otherwise (S02).
func (s *mysqlServer) setUp(ctx context.Context, c *lane) error {
	wait, unbounded := 1, "" // second: the least that MySQL knows
	if s.maria {
		wait, unbounded = 0, ", max_statement_time = 0" // if another transaction holds the row, the server says so at once
	}
	for _, statement := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE", // no locks on gaps: neighbours do not meet
		"SET NAMES utf8mb4",
		"SET SESSION autocommit = 1, completion_type = 0, time_zone = '+00:00', " +
			"sql_mode = " + mysqlMode + ", sql_safe_updates = 0, sql_auto_is_null = 0, " +
			"sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, " +
			"innodb_lock_wait_timeout = " + strconv.Itoa(wait) + unbounded,
		setClock,
	} {
		_, err := c.raw.ExecContext(ctx, statement)
		if err = fault(err); err != nil && (statement != setClock || answered(err) == 0) {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

const mysqlMode = "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"

// setClock has the session go by the server's clock. A server that lets no user set the clock of a
// session refuses it, and needs it not.
const setClock = "SET SESSION timestamp = DEFAULT"
