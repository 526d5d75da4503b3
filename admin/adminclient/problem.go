package adminclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Problem is a refusal of the API: its problem document. Of an answer that is none, Status alone is
// set.
type Problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Detail    string    `json:"detail"`
	Code      string    `json:"code"`                // such as not-found; [github.com/stet-dev/stet/docs/problems] has a page for each
	Parameter string    `json:"parameter,omitempty"` // of the query, or the member of the body, that is at fault
	Retryable bool      `json:"retryable"`
	Expect    *int      `json:"expect,omitempty"`   // of expect-mismatch: how many records were expected
	Matching  *int      `json:"matching,omitempty"` // of expect-mismatch: how many match
	Until     time.Time `json:"until,omitzero"`     // of not-settled: when the attempt has settled

	RetryAfter string `json:"-"` // the answer's header of this name
}

func problem(a *answer) error {
	p := &Problem{}
	_ = json.Unmarshal(a.body.Bytes(), p) // what is no problem document is told by its status
	p.Status, p.RetryAfter = a.status, a.header.Get("Retry-After")
	return p
}

func (p *Problem) Error() string {
	text := strings.Trim(p.Title+": "+p.Detail, ": ")
	if text == "" {
		text = fmt.Sprintf("the answer is %d %s, and does not say why", p.Status, http.StatusText(p.Status))
	}
	return text
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
