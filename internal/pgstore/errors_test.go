package pgstore

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
)

type coded string

func (c coded) Error() string {
	return "ERROR: text that may quote values (SQLSTATE " + string(c) + ")"
}
func (c coded) SQLState() string { return string(c) }

// connect is as pgx tells of a connection that did not come about: the address, which says who and
// where, and then why.
type connect struct{ err error }

func (e *connect) Error() string { return "failed to connect to `user=u database=d`: " + e.err.Error() }
func (e *connect) Unwrap() error { return e.err }

// D11: what a server refuses is said with what to do about it, and a connection that did not come
// about did nothing.
func TestMends(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, c := range map[string]struct {
		err     error
		want    string
		nothing bool // it never happened
	}{
		"a pooler, statement exists": {coded("42P05"), "42P05: a pooler gives the connection to others between two statements, and a prepared one is not there then; " +
			"add ?default_query_exec_mode=cache_describe to the address, or have it pool sessions", false},
		"a pooler, no statement":    {coded("26000"), "or have it pool sessions", false},
		"a pooler, protocol":        {&connect{coded("08P01")}, "could not connect: the server's error 08P01: a pooler between refuses", true},
		"wrong database":            {&connect{coded("3D000")}, "could not connect: the server's error 3D000: it has no such database", true},
		"wrong password":            {&connect{coded("28P01")}, "could not connect: the server's error 28P01: the password", true},
		"refused":                   {&connect{fmt.Errorf("127.0.0.1:1 (127.0.0.1): %w", refused)}, "could not connect: dial tcp: connection refused", true},
		"refused, without pgx":      {fmt.Errorf("pq: %w", refused), "could not connect: dial tcp: connection refused", true},
		"cut off while it was sent": {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, "no answer, it may have happened: ", false},
		"shut down while it ran":    {coded("57P01"), "no answer, it may have happened: the server's error 57P01", false},
	} {
		err := Fault(t.Context(), c.err)
		if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "quote values") || strings.Contains(text, "user=") {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
		if errors.Is(err, groupcommit.ErrNothing) != c.nothing {
			t.Errorf("%s: that nothing was sent is %v", name, errors.Is(err, groupcommit.ErrNothing))
		}
	}
}

// What the server has refused for now may be sent again; nothing of it was stored.
func TestBusy(t *testing.T) {
	for code, busy := range map[string]bool{codeDeadlock: true, codeSerialization: true, codeLockWait: true, codeCanceled: true, codeConnections: true,
		codeStarting: true, codeForbidden: false, codeReadOnly: false, codeDiskFull: false, "57P01": false, "08006": false} {
		var err error = coded(code)
		if code == codeConnections || code == codeStarting {
			err = &connect{err}
		}
		if err = Fault(t.Context(), err); errors.Is(err, stet.ErrBusy) != busy {
			t.Errorf("%s is busy: %v", code, !busy)
		}
	}
}
