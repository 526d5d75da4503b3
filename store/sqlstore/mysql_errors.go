package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/stet-dev/stet"
)

// Numbers of the server's errors that this package acts on.
const (
	mysqlDuplicate = 1062 // the key is taken
	mysqlLockWait  = 1205 // another transaction holds the row; the statement was undone
	mysqlHeld      = 3572 // as 1205, after NOWAIT; MariaDB has one number for both
	mysqlDeadlock  = 1213 // the transaction was undone; with Galera also when another node was first
)

// mysqlFull are the errors of a server without room: the disk is full, the table is full, a tablespace cannot grow.
var mysqlFull = map[int]bool{1021: true, 1114: true, 3675: true}

// serverError is an error that the server has answered with. It does not repeat the server's text, which may quote values: a
// key, for one, in "Duplicate entry".
type serverError struct{ number int }

func (e *serverError) Error() string {
	switch e.number {
	case mysqlLockWait, mysqlHeld:
		return fmt.Sprintf("the server's error %d: another transaction holds the row", e.number)
	case mysqlDeadlock:
		return "the server's error 1213: deadlock"
	}
	return fmt.Sprintf("the server's error %d", e.number)
}

// Is: of a server without room.
func (e *serverError) Is(target error) bool { return target == stet.ErrFull && mysqlFull[e.number] }

// fault makes of an error of a driver one that may be told. What is no [serverError] and no end of a context is a connection
// that broke.
func fault(err error) error {
	if n := errorNumber(err); n != 0 {
		return &serverError{n}
	}
	return err
}

// answered returns the number that the server has answered with, or 0.
func answered(err error) int {
	var e *serverError
	if errors.As(err, &e) {
		return e.number
	}
	return 0
}

// errorNumber finds the number of a server's error in what a driver returned. Drivers have a struct for such errors with a
// field Number (go-sql-driver/mysql) or Code (go-mysql-org); to name their types would mean to import them.
func errorNumber(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct {
			continue
		}
		for _, name := range []string{"Number", "Code"} {
			if f := v.FieldByName(name); f.IsValid() && f.CanUint() {
				return int(f.Uint())
			}
		}
	}
	return 0
}

// gone reports whether the connection, and with it whatever was going on, has to be given up.
func gone(err error) bool { return failed(err) && answered(err) == 0 && !errors.Is(err, errNothing) }

// uncertain is the error of a write that was sent and not answered.
func uncertain(err error) error {
	if answered(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no answer, it may have happened: %w", err)
}
