package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/layers"
)

// exit is a status of the process. Scripts rely on these.
type exit int

const (
	exitFine        exit = iota
	exitError            // port taken, store setting refused, schema not migrated
	exitUsage            // usage, config error, or confirmation needed
	exitNotFound         // no such record
	exitNotAllowed       // the token is missing, wrong, or of too small a role
	exitUnreachable      // the store, or the gateway, cannot be reached
	exitFindings         // what was looked at is not as it should be
)

// statusError is an error with the status it ends the program with.
type statusError struct {
	status exit
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func failf(status exit, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

// refuse is the error of a command line, if something is wrong with it.
func refuse(wrong bool, format string, args ...any) error {
	if wrong {
		return failf(exitUsage, format, args...)
	}
	return nil
}

// errorOf is the error of a call whose result is not needed.
func errorOf[T any](_ T, err error) error { return err }

func exitOf(err error) exit {
	if failed, ok := errors.AsType[*statusError](err); ok {
		return failed.status
	}
	switch {
	case errors.As(err, new(config.Errors)), errors.Is(err, layers.ErrKeys):
		return exitUsage
	case errors.Is(err, dsn.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	}
	return exitError
}
