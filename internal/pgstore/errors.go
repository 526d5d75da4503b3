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
	codeDiskFull      = "53100"
	codeLockWait      = "55P03" // lock_timeout: another transaction holds the row
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeCanceled      = "57014"
	codeForbidden     = "42501"
	classShutdown     = "57P" // the connection is gone with the answer
	classConnection   = "08"
)

// mends say what a code means to the operator, and what to do.
var mends = map[string]string{
	codeLockWait: "another transaction holds the row",
	codeDiskFull: "its disk is full",
	"28000":      "it rejects this user or this way to connect; correct the user in the address, or the server's pg_hba.conf",
	"28P01":      "the password is not that user's; correct it in the address",
	"3D000":      "it has no such database; correct the name in the address, or make it (CREATE DATABASE)",
	"42P05":      pooled,
	"26000":      pooled,
	"08P01":      "a pooler between refuses what it was sent; " + unpooled,
	"53300":      "it has no connection left; raise its max_connections, or lower pool_max_conns in the address",
}

const (
	pooled   = "a pooler gives the connection to others between two statements, and a prepared one is not there then; " + unpooled
	unpooled = "add ?default_query_exec_mode=cache_describe to the address, or have it pool sessions"
)

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

// Is: of a server without room.
func (e *serverError) Is(target error) bool { return target == stet.ErrFull && e.code == codeDiskFull }

// lostError is an error of a connection, or of a server that is going away: it may have happened.
type lostError struct{ err error }

func (e *lostError) Error() string { return "no answer, it may have happened: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// connectError is why there is no connection: nothing was sent on it.
type connectError struct{ err error }

func (e *connectError) Error() string        { return "could not connect: " + e.err.Error() }
func (e *connectError) Unwrap() error        { return e.err }
func (e *connectError) Is(target error) bool { return target == groupcommit.ErrNothing }

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
	if err == nil {
		return nil
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
