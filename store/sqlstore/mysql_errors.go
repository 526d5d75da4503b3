package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
)

// Numbers of the server's errors that this package acts on.
const (
	mysqlDuplicate  = 1062 // the key is taken
	mysqlLockWait   = 1205 // another transaction holds the row; the statement was undone
	mysqlHeld       = 3572 // as 1205, after NOWAIT; MariaDB has one number for both
	mysqlDeadlock   = 1213 // the transaction was undone; with Galera also when another node was first
	mysqlTooLarge   = 1153 // the statement is larger than max_allowed_packet; the server closes the connection
	mysqlNoTable    = 1146
	mysqlNoDatabase = 1046 // the session has chosen none
	mysqlNull       = 1048 // a column has no value: see [sqltext.MySQLWrite].Known

	mysqlNoSavepoint = 1305

	mysqlReadOnly    = 1290
	mysqlByStatement = 1665 // of InnoDB at READ COMMITTED
)

// mysqlCrowded are the errors of a server that has no connection left, for all or for this user.
var mysqlCrowded = map[int]bool{1040: true, 1203: true, 1226: true}

func crowded(err error) bool { return mysqlCrowded[errorNumber(err)] || mysqlCrowded[answered(err)] }

// mysqlFull are the errors of a server without room: the disk is full, the table is full, a
// tablespace cannot grow.
var mysqlFull = map[int]bool{1021: true, 1114: true, 3675: true}

// mysqlNever are the errors of a server that takes no such record, whenever it is sent: a value is
// too long for its column or out of its range, a row is too long, the statement is.
var mysqlNever = map[int]bool{mysqlTooLarge: true, 1118: true, 1264: true, 1406: true}

// serverError is an error that the server has answered with. It does not repeat the server's text,
// which may quote values: a key, for one, in "Duplicate entry".
type serverError struct{ number int }

func (e *serverError) Error() string {
	text := fmt.Sprintf("the server's error %d", e.number)
	if mend := mysqlMends[e.number]; mend != "" {
		text += ": " + mend
	}
	return text
}

// mysqlMends say what an error means to the operator, and what to do.
var mysqlMends = map[int]string{
	mysqlLockWait: "another transaction holds the row",
	mysqlHeld:     "another transaction holds the row",
	mysqlDeadlock: "deadlock",
	mysqlTooLarge: "the statement is larger than max_allowed_packet, of the server or in the data source name",

	1040:             "it has no connection left; raise its max_connections",
	1104:             "the session may not read that many rows; set sql_big_selects=1 in the data source name",
	1142:             "this user may not do this with a table of the store; GRANT SELECT, INSERT, UPDATE, DELETE ON the database's tables to it",
	1143:             "this user may not do this with a column of the store; GRANT SELECT, INSERT, UPDATE, DELETE ON the database's tables to it",
	1203:             "this user has no connection left; raise max_user_connections",
	1226:             "this user has used up what it may in an hour, or its connections; ALTER USER … WITH MAX_USER_CONNECTIONS 0, and so for what is per hour",
	mysqlReadOnly:    "the server is read_only: it is a replica, perhaps; connect to the primary",
	mysqlByStatement: "the server has binlog_format STATEMENT, and takes no write at READ COMMITTED; SET GLOBAL binlog_format = 'ROW', and in its configuration",
	1792:             "the session is read only; set tx_read_only=0 (in MySQL transaction_read_only=0) in the data source name, or for the server",
	1969:             "it took longer than the server's max_statement_time; raise that",
	1836:             "the server is read_only: it is being upgraded or is a replica, perhaps; connect to the primary",
	1044:             "this user may not use the database; GRANT it",
	1045:             "the user or the password is not right; correct them in the address",
	1049:             "it has no such database; correct the name in the address, or make it (CREATE DATABASE)",
	1130:             "it accepts no connection from this host; check the host of the user, and GRANT it",
	1698:             "the user or the password is not right; correct them in the address",
}

// Is: of a server without room, of one that can never take the record, and of one without a
// connection.
func (e *serverError) Is(target error) bool {
	return target == stet.ErrFull && mysqlFull[e.number] || target == stet.ErrRefused && mysqlNever[e.number] ||
		target == stet.ErrBusy && mysqlCrowded[e.number]
}

// fault makes of an error of a driver one that may be told. What is no [serverError] and no end of
// a context is a connection that broke.
func fault(err error) error {
	if n := errorNumber(err); n != 0 {
		return &serverError{n}
	}
	if err != nil && strings.HasPrefix(err.Error(), clientTooLarge) {
		return &serverError{mysqlTooLarge}
	}
	return err
}

// clientTooLarge begins the error of go-sql-driver/mysql for a statement that is larger than its
// own limit, of which nothing was sent.
const clientTooLarge = "packet for query is too large"

// unforeseen reports whether the server has answered with an error that is not one of those that
// concern a row, or its room. After some of them it closes the connection (1153, a shutdown, a
// session that was killed), and after others what it keeps for the session is not what it was: no
// other call is to find out which.
func unforeseen(err error) bool {
	switch n := answered(err); n {
	case 0, mysqlDuplicate, mysqlLockWait, mysqlHeld, mysqlDeadlock:
		return false
	default:
		return !mysqlFull[n]
	}
}

// answered returns the number that the server has answered with, or 0.
func answered(err error) int {
	if e, ok := errors.AsType[*serverError](err); ok {
		return e.number
	}
	return 0
}

// errorNumber finds the number of a database's error in what a driver returned. Drivers have a
// struct for such errors with a field Number (go-sql-driver/mysql) or Code (go-mysql-org,
// go-sqlite3), or a method Code (modernc.org/sqlite); to name their types would mean to import
// them.
func errorNumber(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(interface{ Code() int }); ok {
		return e.Code()
	}
	if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		for _, name := range []string{"Number", "Code"} {
			switch f := v.FieldByName(name); {
			case f.IsValid() && f.CanUint():
				return int(f.Uint())
			case f.IsValid() && f.CanInt():
				return int(f.Int())
			}
		}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return errorNumber(err.Unwrap())
	case interface{ Unwrap() []error }: // of errors.Join, and of several %w
		for _, e := range err.Unwrap() {
			if n := errorNumber(e); n != 0 {
				return n
			}
		}
	}
	return 0
}

// gone reports whether the connection, and with it whatever was going on, has to be given up.
func gone(err error) bool {
	return failed(err) && answered(err) == 0 && !errors.Is(err, groupcommit.ErrNothing) && !errors.Is(err, errCount)
}

// uncertain is the error of a write that was sent and not answered.
func uncertain(err error) error {
	if answered(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // nothing was sent
		return fmt.Errorf("could not connect: %w", err)
	}
	return fmt.Errorf("no answer, it may have happened: %w", err)
}
