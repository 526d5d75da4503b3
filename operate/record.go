package operate

import (
	"cmp"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
)

// Record is what operators see of a record: its JSON form is that of the API and of the operator
// commands. What does not apply is left out. Times are the store's.
type Record struct {
	ID            string    `json:"id"` // see [stet.Head].Tag
	Scope         string    `json:"scope"`
	State         string    `json:"state"` // a state's name, or failed: completed with a status of 500 and above
	Attempt       int       `json:"attempt"`
	Version       uint64    `json:"version,string"` // of 63 bits: more than a double holds
	Basis         string    `json:"basis"`          // see [stet.Head.Basis]: a job takes ID@Basis
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
	UnknownSince  time.Time `json:"unknown_since,omitzero"`
	DueAt         time.Time `json:"due_at,omitzero"`     // the lease's end, the next probe, or expires_at
	ExpiresAt     time.Time `json:"expires_at,omitzero"` // when the key is free again, or refused as expired

	// What is around the record; the list of all keys has none of it.
	Outlook  *Outlook     `json:"outlook,omitzero"`
	Probe    *ProbeAnswer `json:"last_probe,omitzero"`
	Late     *LateAnswer  `json:"late_answer,omitzero"`
	Mismatch *Mismatch    `json:"last_mismatch,omitzero"`
	Asking   *Asking      `json:"asking,omitzero"`
	Snooze   *Snooze      `json:"snooze,omitzero"`
	With     *Handover    `json:"with,omitzero"`
	// In sentences, of a record that is looked at alone.
	Explanation *Explanation `json:"explanation,omitzero"`
	// The recovery points that the runs of a flow came to, oldest first: of a record that is looked
	// at alone, until it is completed.
	Points []flow.Point `json:"points,omitzero"`

	Key      string    `json:"key,omitzero"` // only where it was asked for
	Response *Response `json:"response,omitzero"`
}

// Response is a stored response, as far as it was kept.
type Response struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	Body    []byte              `json:"body_b64"`
}

// record describes a record by the id that it is stored with: lists and logs show it, and it is
// found by that.
func (s *service) record(head *stet.Head) Record {
	return newRecord(cmp.Or(head.Tag, s.engine.Tag(head.ID)), head)
}

// newRecord describes a record without its key, request and response. id is its [stet.Head].Tag.
func newRecord(id string, h *stet.Head) Record {
	r := Record{
		ID: id, Scope: string(h.Scope), State: h.State.String(), Attempt: h.Attempt, Version: uint64(h.Version), Basis: h.Basis(),
		Route: h.Route, Method: h.Method, Path: h.Path, Status: h.Status, Point: h.Point, Cause: h.Cause, Owner: h.Holder,
		Probes: h.Probes, Escalated: h.Escalated, TookMS: millis(h.Took), TraceID: h.TraceID,
		CreatedAt: h.CreatedAt.UTC(), UpdatedAt: h.UpdatedAt.UTC(), CompletedAt: h.CompletedAt.UTC(), DueAt: h.DueAt.UTC(),
	}
	if h.Failed() {
		r.State = stateFailed
	}
	if h.Status != 0 {
		r.ResponseBytes = &h.Size
	}
	switch h.State {
	case stet.Completed, stet.Retryable, stet.Expired:
		r.ExpiresAt = r.DueAt
	case stet.Unknown: // like the next, never ends by time
		r.UnknownSince = h.UnknownSince().UTC()
	case stet.Running:
	}
	return r
}

// stateFailed is not stored: see [stet.Head.Failed].
const stateFailed = "failed"

// reveal adds what is not shown by default.
func (r *Record) reveal(rec *stet.Record) {
	r.Key = string(rec.Key)
	if rec.Response == nil {
		return
	}
	r.Response = &Response{Status: rec.Response.Status, Headers: map[string][]string{}, Body: some(rec.Response.Body)}
	for _, f := range rec.Response.Header {
		r.Response.Headers[f.Name] = append(r.Response.Headers[f.Name], f.Value)
	}
}
