package admin

import (
	"cmp"
	"time"

	"github.com/stet-dev/stet"
)

// record is what operators see of a record: its JSON form is that of the API and of the operator
// commands. What does not apply is left out. Times are the store's.
type record struct {
	ID            string    `json:"id"` // see [stet.Head].Tag
	Scope         string    `json:"scope"`
	State         string    `json:"state"` // a state's name, or failed: completed with a status of 500 and above
	Attempt       int       `json:"attempt"`
	Version       uint64    `json:"version,string"` // of 63 bits: more than a double holds
	Route         string    `json:"route,omitzero"`
	Method        string    `json:"method,omitzero"`
	Path          string    `json:"path,omitzero"`
	Status        int       `json:"status,omitzero"`
	ResponseBytes *int64    `json:"response_bytes,omitzero"` // there with a status, also when the body was not kept
	Point         string    `json:"point,omitzero"`
	Cause         string    `json:"cause,omitzero"`
	Owner         string    `json:"owner,omitzero"` // the process that runs it, or ran it last
	Probes        int       `json:"probes,omitzero"`
	Escalated     bool      `json:"escalated,omitzero"`
	TookMS        float64   `json:"took_ms,omitzero"` // the execution, to the microsecond
	TraceID       string    `json:"trace_id,omitzero"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
	CompletedAt   time.Time `json:"completed_at,omitzero"`
	DueAt         time.Time `json:"due_at,omitzero"`     // the lease's end, the next probe, or expires_at
	ExpiresAt     time.Time `json:"expires_at,omitzero"` // when the key is free again, or refused as expired

	Key      string    `json:"key,omitzero"` // only where it was asked for
	Response *response `json:"response,omitzero"`
}

// response is a stored response, as far as it was kept.
type response struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	Body    []byte              `json:"body_b64"`
}

// record describes a record without its key, request and response, by the id that it is stored
// with: lists and logs show it, and it is found by that.
func (h *handler) record(head *stet.Head) record {
	r := record{
		ID: cmp.Or(head.Tag, h.engine.Tag(head.ID)), Scope: string(head.Scope), State: head.State.String(), Attempt: head.Attempt, Version: uint64(head.Version),
		Route: head.Route, Method: head.Method, Path: head.Path, Status: head.Status, Point: head.Point, Cause: head.Cause, Owner: head.Holder,
		Probes: head.Probes, Escalated: head.Escalated, TookMS: float64(head.Took.Microseconds()) / 1000, TraceID: head.TraceID,
		CreatedAt: head.CreatedAt.UTC(), UpdatedAt: head.UpdatedAt.UTC(), CompletedAt: head.CompletedAt.UTC(), DueAt: head.DueAt.UTC(),
	}
	if head.Failed() {
		r.State = stateFailed
	}
	if head.Status != 0 {
		r.ResponseBytes = &head.Size
	}
	switch head.State {
	case stet.Completed, stet.Retryable, stet.Expired:
		r.ExpiresAt = r.DueAt
	case stet.Running, stet.Unknown: // never end by time
	}
	return r
}

// stateFailed is not stored: see [stet.Head.Failed].
const stateFailed = "failed"

// reveal adds what is not shown by default.
func (r *record) reveal(rec *stet.Record) {
	r.Key = string(rec.Key)
	if rec.Response == nil {
		return
	}
	r.Response = &response{Status: rec.Response.Status, Headers: map[string][]string{}, Body: rec.Response.Body}
	if r.Response.Body == nil {
		r.Response.Body = []byte{}
	}
	for _, f := range rec.Response.Header {
		r.Response.Headers[f.Name] = append(r.Response.Headers[f.Name], f.Value)
	}
}
