package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
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

// serverError is an error that the server has answered with: the statement, and its transaction where it had one of its own,
// never happened. The server's text is not repeated, because it may quote values.
type serverError struct{ code string }

func (e *serverError) Error() string {
	switch e.code {
	case codeLockWait:
		return "the server's error 55P03: another transaction holds the row"
	case codeDiskFull:
		return "the server's error 53100: its disk is full"
	}
	return "the server's error " + e.code
}

// Is: of a server without room.
func (e *serverError) Is(target error) bool { return target == stet.ErrFull && e.code == codeDiskFull }

// lostError is an error of a connection, or of a server that is going away: it may have happened.
type lostError struct{ err error }

func (e *lostError) Error() string { return "no answer, it may have happened: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// fault makes of an error of a driver one that may be told.
func fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var coded interface{ SQLState() string } // pgx and lib/pq have it
	if errors.As(err, &coded) {
		code := coded.SQLState()
		switch {
		case code == codeCanceled && ctx.Err() != nil:
			return fmt.Errorf("%w (%s)", ctx.Err(), code)
		case len(code) == 5 && code[:3] == classShutdown || len(code) == 5 && code[:2] == classConnection:
			return &lostError{&serverError{code}}
		}
		return &serverError{code}
	}
	var safe interface{ SafeToRetry() bool } // of pgx
	switch {
	case errors.As(err, &safe) && safe.SafeToRetry():
		return fmt.Errorf("%w: %w", errNothing, cmp.Or(ctx.Err(), err))
	case ctx.Err() != nil:
		return &lostError{ctx.Err()}
	}
	return &lostError{err}
}

// answered returns the code of an error that the server has answered with, or "".
func answered(err error) string {
	var lost *lostError
	var e *serverError
	if !errors.As(err, &lost) && errors.As(err, &e) {
		return e.code
	}
	return ""
}
