package admin

import (
	"time"

	"github.com/stet-dev/stet/bulk"
)

// The bodies of changes, as clients send them. A member that an endpoint does not know is refused.
// They are the documents of package adminclient and of /openapi.json; handlers read the members one
// by one, so that a mistake is named.

// Change is what every change says of itself.
type Change struct {
	Reason   string `json:"reason"` // kept in the audit trail
	Evidence string `json:"evidence,omitzero"`
	Version  string `json:"if_version,omitzero"` // the record is only changed while it has this version
	Basis    string `json:"if_basis,omitzero"`   // and while it has this [Record].Basis, which no probe changes
}

// Resolution is the body of POST …/resolve and …/release.
type Resolution struct {
	Change
	// As, in place of all else, ends the record as what is known of it says: late-answer, with the
	// answer that came too late as it was kept; last-probe, with the status that the last probe
	// found.
	As      string              `json:"as,omitzero"`
	Outcome string              `json:"outcome,omitzero"`  // completed or not-executed; a release needs none
	Status  int                 `json:"status,omitzero"`   // of the answer that retries get, as are the next three
	Headers map[string][]string `json:"headers,omitempty"` // each name with its values
	Text    string              `json:"body,omitzero"`
	Body    []byte              `json:"body_b64,omitempty"` // in place of body
	// Voided releases although the attempt has not settled: the provider has cancelled it, or
	// refuses its key from now on, as the evidence says. Now does so without waiting for a handler
	// either, and Override against a late answer, or a probe that found it. Each takes the role
	// admin.
	Voided   bool `json:"voided,omitzero"`
	Now      bool `json:"now,omitzero"`
	Override bool `json:"override,omitzero"`
}

// Extension is the body of POST …/extend.
type Extension struct {
	Change
	Seconds float64 `json:"seconds"` // from now
}

// Remark is the body of POST …/note.
type Remark struct {
	Reason   string `json:"reason,omitzero"`
	Text     string `json:"text,omitzero"` // in place of reason
	Evidence string `json:"evidence,omitzero"`
	Version  string `json:"if_version,omitzero"`
	Basis    string `json:"if_basis,omitzero"`
}

// Snoozing is the body of POST …/snooze: for how long, or until when.
type Snoozing struct {
	For     *float64  `json:"for_s,omitzero"` // 0 wakes
	Until   time.Time `json:"until,omitzero"`
	Reason  string    `json:"reason,omitzero"` // which waking needs not
	Version string    `json:"if_version,omitzero"`
	Basis   string    `json:"if_basis,omitzero"`
}

// Handing is the body of POST …/hand.
type Handing struct {
	To      string `json:"to"`
	Note    string `json:"note,omitzero"`
	Version string `json:"if_version,omitzero"`
	Basis   string `json:"if_basis,omitzero"`
}

// Question is the body of POST …/probe.
type Question struct {
	Reason  string `json:"reason,omitzero"`
	Version string `json:"if_version,omitzero"`
	Basis   string `json:"if_basis,omitzero"`
}

// Search is the answer of GET /api/v1/find.
type Search struct {
	Found   []Found  `json:"found"`
	More    bool     `json:"more"`    // the search ended before it had looked through all
	Skipped []string `json:"skipped"` // what was not searched, by the words of [Found]: the role, or the store, does not allow it
}

// Settling is the body of POST /api/v1/outbox/{message}/retry, …/discard and …/confirm.
type Settling struct {
	Reason  string `json:"reason"`
	Version string `json:"if_version,omitzero"` // the message is only changed while it has this version
}

// Selection is the body of POST /api/v1/bulk/count: what a job would do, to which records.
type Selection struct {
	Action bulk.Action `json:"action"`
	Filter Parameters  `json:"filter,omitempty"`
}

// Parameters are those of a list, by their names, such as {"state": "unknown"}. They are a [Filter]
// with its key in the clear.
type Parameters map[string]any

// Order is the body of POST /api/v1/bulk.
type Order struct {
	Selection
	// IDs are the records, in place of a filter: k_…, or k_…@BASIS for one that is changed only
	// while it has that [Record].Basis.
	IDs      []string  `json:"ids,omitempty"`
	Expect   int       `json:"expect"` // how many match, as counted
	Limit    int       `json:"limit,omitzero"`
	Seconds  float64   `json:"seconds,omitzero"` // of extend: from now
	Until    time.Time `json:"until,omitzero"`   // of snooze
	To       string    `json:"to,omitzero"`      // of hand
	Note     string    `json:"note,omitzero"`    // of hand: in place of reason
	Reason   string    `json:"reason,omitzero"`  // which hand needs not
	Evidence string    `json:"evidence,omitzero"`
	Now      bool      `json:"now,omitzero"`
	Override bool      `json:"override,omitzero"`
}

// Count is the answer of POST /api/v1/bulk/count.
type Count struct {
	Matching int            `json:"matching"`
	States   map[string]int `json:"states"`
	Oldest   time.Time      `json:"oldest,omitzero"`
}

// Probed is the answer of POST …/probe: what the question found out, beside the record as it is
// then.
type Probed struct {
	Record
	Probe Finding `json:"probe"`
}

// Finding is what a question found out.
type Finding struct {
	Found    string    `json:"found"` // pending, happened, missing, voided or goes-on
	Evidence string    `json:"evidence,omitzero"`
	Settles  time.Time `json:"settles_at,omitzero"` // with missing: when that begins to be a proof
}
