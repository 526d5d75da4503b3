package adminclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stet-dev/stet/operate"
)

// Problem is a refusal of the API. Of an answer that is no problem document, Status alone is set.
type Problem = operate.Problem

func problem(a *answer) error {
	p := &Problem{}
	_ = json.Unmarshal(a.body.Bytes(), p) // what is no problem document is told by its status
	p.Status, p.RetryAfter = a.status, a.header.Get("Retry-After")
	return p
}

// Is reports whether err is a [*Problem] with this code.
func Is(err error, code string) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Code == code
}

// UnreachableError is the error of a call that no server answered.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// StrangerError is the error of an answer that another server gave. Nothing of it is believed, and
// that server was shown no token, unless it took the place of the admin API after it had answered.
type StrangerError struct {
	Status  int
	Gateway bool // it is the address of a gateway for its clients
	TLS     bool // it speaks TLS, and was asked without
}

func (e *StrangerError) Error() string {
	switch {
	case e.Gateway:
		return "adminclient: this is the gateway's address for clients, not the admin listener"
	case e.TLS:
		return "adminclient: the server speaks TLS, and was asked without"
	}
	return fmt.Sprintf("adminclient: the answer is %d, and not of the admin API", e.Status)
}

func stranger(res *http.Response) error {
	e := &StrangerError{Status: res.StatusCode}
	_, e.Gateway = res.Header["Stet-Outcome"]
	e.Gateway = e.Gateway || strings.Contains(strings.Join(res.Header["Via"], ","), " stet")
	if res.StatusCode == http.StatusBadRequest && res.Request.URL.Scheme == "http" {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 512)) // the sentences of net/http and nginx
		e.TLS = strings.Contains(string(said), "HTTPS")
	}
	return e
}
