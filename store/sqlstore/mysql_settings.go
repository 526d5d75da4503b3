package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// mysqlServer is what the store needs to know of the server.
type mysqlServer struct {
	maria  bool
	packet int // bytes of a statement at most
}

// mysqlLeastPacket is the least max_allowed_packet: a record of a megabyte has to fit, and twice, as text.
const mysqlLeastPacket = 4 << 20

// checkMySQL refuses a server, a database or a data source name under which the store could not keep its promises.
func checkMySQL(ctx context.Context, db *sql.DB) (mysqlServer, error) {
	var s mysqlServer
	conn, err := db.Conn(ctx)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	var version, mode, engine string
	var flush, binlog, syncBinlog, readOnly int
	err = conn.QueryRowContext(ctx, `SELECT VERSION(), @@SESSION.sql_mode, @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin,
		@@GLOBAL.sync_binlog, @@GLOBAL.max_allowed_packet, @@GLOBAL.read_only,
		(SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'stet_records')`).
		Scan(&version, &mode, &flush, &binlog, &syncBinlog, &s.packet, &readOnly, &engine)
	if err != nil {
		return s, fmt.Errorf("reading the server's settings: %w", err)
	}
	s.maria = strings.Contains(strings.ToLower(version), "mariadb")
	mode = "," + strings.ToUpper(mode) + ","
	switch {
	case !newEnough(version, s.maria):
		return s, fmt.Errorf("the server is %s; MySQL 8.0.16 or MariaDB 10.6 is needed, which pass over rows that others hold", version)
	case !strings.EqualFold(engine, "InnoDB"):
		return s, fmt.Errorf("the table stet_records has the engine %s and has to have InnoDB: without transactions a write can be there by half; "+
			"ALTER TABLE stet_records ENGINE = InnoDB, and the same for stet_history", engine)
	case !strings.Contains(mode, ",STRICT_TRANS_TABLES,") && !strings.Contains(mode, ",STRICT_ALL_TABLES,"):
		return s, errors.New("sql_mode is not strict: what does not fit would be cut off in silence; have STRICT_TRANS_TABLES in the server's sql_mode, " +
			"or in the data source name")
	case flush != 1:
		return s, fmt.Errorf("innodb_flush_log_at_trx_commit is %d and has to be 1: what was acknowledged can otherwise be lost with the power", flush)
	case binlog != 0 && syncBinlog != 1:
		return s, fmt.Errorf("the server writes a binary log, sync_binlog is %d and has to be 1: a transaction that is not in the log is undone "+
			"when the server recovers, also if it was acknowledged", syncBinlog)
	case s.packet < mysqlLeastPacket:
		return s, fmt.Errorf("max_allowed_packet is %d and has to be at least %d, or no larger response can be kept", s.packet, mysqlLeastPacket)
	case readOnly != 0:
		return s, errors.New("the server is read_only: it is a replica, perhaps")
	}
	return s, checkFoundRows(ctx, conn)
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
	parts := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	var have [3]int
	for i := range min(len(parts), 3) {
		have[i], _ = strconv.Atoi(parts[i])
	}
	if maria {
		return have[0] > 10 || have[0] == 10 && have[1] >= 6
	}
	return have[0] > 8 || have[0] == 8 && (have[1] > 0 || have[2] >= 16)
}

// setUp are the statements that begin a connection of the store's own.
func (s mysqlServer) setUp() []string {
	wait := 1 // second: the least that MySQL knows
	if s.maria {
		wait = 0 // a row that somebody holds is an answer at once
	}
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", // no locks on gaps: neighbours do not meet
		"SET SESSION innodb_lock_wait_timeout = " + strconv.Itoa(wait),
		"SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"SET SESSION autocommit = 1",
	}
}
