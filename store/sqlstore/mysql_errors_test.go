package sqlstore

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

type driverError struct {
	Number  uint16
	Message string
}

func (e *driverError) Error() string { return e.Message }

// The server's number is found however its error is wrapped: joined, and beside others (B08). What
// has no number is a connection that broke, and a write over it may have happened.
func TestErrorNumbers(t *testing.T) {
	held := &driverError{1205, "Lock wait timeout exceeded"}
	for _, err := range []error{held, fmt.Errorf("a: %w", held), errors.Join(nil, held), errors.Join(io.EOF, held),
		fmt.Errorf("%w, after %w", io.EOF, fmt.Errorf("b: %w", errors.Join(held)))} {
		if got := answered(fault(err)); got != mysqlLockWait {
			t.Errorf("%v: %d, want %d", err, got, mysqlLockWait)
		}
		if gone(fault(err)) || unforeseen(fault(err)) {
			t.Errorf("%v: the connection is given up", err)
		}
	}
	for _, err := range []error{io.EOF, errors.Join(io.EOF, io.ErrUnexpectedEOF)} {
		if got := answered(fault(err)); got != 0 || !gone(fault(err)) {
			t.Errorf("%v: %d; it is no answer", err, got)
		}
	}
	if err := fault(&driverError{1153, ""}); gone(err) || !unforeseen(err) {
		t.Errorf("%v: the server closes the connection behind its answer", err)
	}
}
