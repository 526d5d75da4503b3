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
)

// mysqlServer is what a promise of the store rests on: settings of a server, and of a session with
// it.
type mysqlServer struct {
	maria                 bool
	version, mode, engine string
	packet                int // bytes of a statement at most
	readOnly              bool

	flush, binlog, syncBinlog int
	doublewrite               string
}

// mysqlLeastPacket is the least max_allowed_packet: a record of a megabyte has to fit, and twice,
// as text.
const mysqlLeastPacket = 4 << 20

func readMySQLServer(ctx context.Context, conn asker) (s mysqlServer, err error) {
	err = conn.QueryRowContext(ctx, `SELECT VERSION(), @@SESSION.sql_mode, @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin,
		@@GLOBAL.sync_binlog, @@GLOBAL.innodb_doublewrite, @@GLOBAL.max_allowed_packet, @@GLOBAL.read_only,
		(SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'stet_records')`).
		Scan(&s.version, &s.mode, &s.flush, &s.binlog, &s.syncBinlog, &s.doublewrite, &s.packet, &s.readOnly, &s.engine)
	s.maria = strings.Contains(strings.ToLower(s.version), "mariadb")
	if err != nil {
		return s, fmt.Errorf("reading the server's settings: %w", err)
	}
	return s, nil
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
	case s.readOnly:
		return errors.New("the server is read_only: it is a replica, perhaps")
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
	now, err := readMySQLServer(ctx, s.db)
	if err == nil && !s.volatile {
		err = now.durable()
	}
	return wrap("check", err)
}

// checkFoundRows tells by an UPDATE that changes nothing what the driver was told to count.
func checkFoundRows(ctx context.Context, conn *sql.Conn) error {
	res, err := conn.ExecContext(ctx, "UPDATE stet_schema SET version = version WHERE version = 1")
	if err != nil {
		return fmt.Errorf("an UPDATE of stet_schema: %w", err)
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

// setUp begins a connection of the store's own.
func (s *mysqlServer) setUp(ctx context.Context, c *lane) error {
	wait := 1 // second: the least that MySQL knows
	if s.maria {
		wait = 0 // if another transaction holds the row, the server says so at once
	}
	for _, statement := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", // no locks on gaps: neighbours do not meet
		"SET SESSION innodb_lock_wait_timeout = " + strconv.Itoa(wait),
		"SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"SET SESSION autocommit = 1",
	} {
		if _, err := c.raw.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
