package admin

import (
	"time"

	"github.com/stet-dev/stet"
)

// maxEnded is how many groups a status has of records that are not unknown any more. They are found
// among the entries of one page of the history.
const maxEnded = 5

// Ended is a group of records that came from unknown to the same state by the same hand in the same
// minute.
type Ended struct {
	At     time.Time `json:"at"` // of the last of them
	Count  int       `json:"count"`
	To     string    `json:"to"`
	Action string    `json:"action"` // see [stet.Change.Action]
	Who    string    `json:"who"`
	Reason string    `json:"reason,omitzero"` // if it is the same of all
	ID     string    `json:"id,omitzero"`     // of the record, if it is a single one
}

// ended groups the entries, newest first, that brought an outcome of what who may see.
func (h *handler) ended(who principal, changes []stet.Change) (all []Ended) {
	for i := range changes {
		c := &changes[i]
		if c.From != stet.Unknown || c.To == stet.Unknown || !who.allows(c.ID.Scope) {
			continue
		}
		e := h.entry(c)
		if n := len(all); n > 0 {
			last := &all[n-1]
			if last.To == e.To && last.Action == e.Action && last.Who == e.Who && last.At.Sub(e.At) < time.Minute {
				if last.Count, last.ID = last.Count+1, ""; last.Reason != e.Reason {
					last.Reason = ""
				}
				continue
			}
		}
		if len(all) == maxEnded {
			break
		}
		all = append(all, Ended{At: e.At, Count: 1, To: e.To, Action: e.Action, Who: e.Who, Reason: e.Reason, ID: e.ID})
	}
	return all
}
