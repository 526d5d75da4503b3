package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
)

// Codes of the server's errors that this package acts on (PostgreSQL documentation, appendix A).
const (
	codeConnections   = "53300"
	codeStarting      = "57P03"
	codeReadOnly      = "25006"
	codeDiskFull      = "53100"
	codeLockWait      = "55P03" // lock_timeout: another transaction holds the row
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeCanceled      = "57014"
	codeForbidden     = "42501"
	codeNoSavepoint   = "3B001"
	codeNoTransaction = "25P01"
	codeTooLong       = "22001"
	codeTooLarge      = "54000" // a row of an index, as of the names, or a value
	classShutdown     = "57P"   // the connection is gone with the answer
	classConnection   = "08"
)

// mends say what a code means to the operator, and what to do.
var mends = map[string]string{
	codeLockWait:  "another transaction holds the row",
	codeDiskFull:  "its disk is full",
	codeForbidden: "this role may not do that; `stet migrate sql` prints the grants that it needs, and row-level security has to be off for it",
	codeCanceled:  "an administrator or its statement_timeout has ended it; ALTER ROLE … RESET statement_timeout",
	codeReadOnly: "it takes no writes: it is a standby, whose primary the address has to name, or default_transaction_read_only is on; " +
		"ALTER ROLE … SET default_transaction_read_only = off",
	codeTooLarge:    "scope and key are too long for an index, or a value is too large",
	"XX001":         damaged,
	"XX002":         damaged,
	"28000":         "it rejects this user or this way to connect; correct the user in the address, or the server's pg_hba.conf",
	"28P01":         "the password is not that user's; correct it in the address",
	"3D000":         "it has no such database; correct the name in the address, or make it (CREATE DATABASE)",
	"42P05":         pooled,
	"26000":         pooled,
	"08P01":         "a pooler between refuses what it was sent; " + unpooled,
	codeConnections: "it has no connection left; raise its max_connections, or lower pool_max_conns in the address",
}

const (
	pooled   = "a pooler gives the connection to others between two statements, and a prepared one is not there then; " + unpooled
	damaged  = "what it has on its disk is damaged: a table, or an index that does not fit it; stop what writes, and REINDEX the table, or restore a backup"
	unpooled = "add ?default_query_exec_mode=cache_describe to the address, or have it pool sessions"
)

// TakesNoWrites reports whether a code of the server's says that it is a standby, or read-only.
func TakesNoWrites(code string) bool { return code == codeReadOnly }

// serverError is an error that the server has answered with: the statement, and its transaction
// where it had one of its own, never happened. The server's text is not repeated, because it may
// quote values.
type serverError struct{ code string }

func (e *serverError) Error() string {
	text := "the server's error " + e.code
	if mend := mends[e.code]; mend != "" {
		text += ": " + mend
	}
	return text
}

// Is: of a server without room, of one that can never take the record, and of one that may take it
// a moment later.
func (e *serverError) Is(target error) bool {
	switch e.code {
	case codeDiskFull:
		return target == stet.ErrFull
	case codeTooLarge, codeTooLong:
		return target == stet.ErrRefused
	case codeLockWait, codeSerialization, codeDeadlock, codeCanceled, codeConnections, codeStarting:
		return target == stet.ErrBusy
	}
	return false
}

// lostError is an error of a connection, or of a server that is going away: it may have happened.
type lostError struct{ err error }

func (e *lostError) Error() string { return "no answer, it may have happened: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// connectError is why there is no connection: nothing was sent on it.
type connectError struct{ err error }

func (e *connectError) Error() string        { return "could not connect: " + e.err.Error() }
func (e *connectError) Unwrap() error        { return e.err }
func (e *connectError) Is(target error) bool { return target == groupcommit.ErrNothing }

// NoConnection is an error of a pool that has given no connection: nothing was sent.
type NoConnection struct{ Err error }

func (e *NoConnection) Error() string { return e.Err.Error() }
func (e *NoConnection) Unwrap() error { return e.Err }

// ErrCut is the error of a statement that is committed, and whose wait for a synchronous standby
// was cancelled.
var ErrCut = fmt.Errorf("%w: the server was told not to wait for its standby; it may have happened", stet.ErrUnconfirmed)

// connecting returns why no connection came about, or nil where err is of another kind. pgx says so
// in words alone; its own type of error repeats the address.
func connecting(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), "failed to connect to ") {
			return cmp.Or(errors.Unwrap(e), e)
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return op
	}
	return nil
}

// Fault returns an error of a driver as one that repeats no values, and says what to do if the
// server has said what is wrong.
func Fault(ctx context.Context, err error) error {
	if err == nil || err == ErrCut {
		return err
	}
	if none, ok := errors.AsType[*NoConnection](err); ok && ctx.Err() != nil && connecting(err) == nil {
		return groupcommit.Nothing(fmt.Errorf("%w: no connection of the pool came free: %w", stet.ErrBusy, none.Err))
	}
	var coded interface{ SQLState() string } // pgx and lib/pq have it
	if errors.As(err, &coded) {
		code := coded.SQLState()
		switch {
		case connecting(err) != nil:
			return &connectError{&serverError{code}}
		case code == codeCanceled && ctx.Err() != nil:
			return fmt.Errorf("%w (%s)", ctx.Err(), code)
		case len(code) == 5 && code[:3] == classShutdown || len(code) == 5 && code[:2] == classConnection:
			return &lostError{&serverError{code}}
		}
		return &serverError{code}
	}
	var safe interface{ SafeToRetry() bool } // of pgx
	why := connecting(err)
	if op, ok := errors.AsType[*net.OpError](why); ok {
		why = op // without the list of what was tried
	}
	switch {
	case why != nil:
		return &connectError{cmp.Or(ctx.Err(), why)}
	case errors.As(err, &safe) && safe.SafeToRetry():
		return groupcommit.Nothing(cmp.Or(ctx.Err(), err))
	case ctx.Err() != nil:
		return &lostError{ctx.Err()}
	}
	return &lostError{err}
}

// answered returns the code of an error that the server has answered with, or "".
func answered(err error) string {
	_, lost := errors.AsType[*lostError](err)
	if e, ok := errors.AsType[*serverError](err); ok && !lost {
		return e.code
	}
	return ""
}
