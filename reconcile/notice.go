package reconcile

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/stethttp"
)

// notice is what a provider says about one execution.
type notice struct {
	Scope         string
	Key           string
	DownstreamKey string
	DownstreamID  string
	Outcome       string
	Fence         json.Number // as a number or as a string: it came in a header
	Status        int
	Headers       map[string][]string
	Body          []byte
	Evidence      string

	resolution stet.Resolution
	about      stet.Execution
}

// resolve says what the notice means for a record.
func (n *notice) resolve() (problem string) {
	if n.Fence != "" {
		fence, err := strconv.ParseInt(string(n.Fence), 10, 64)
		if err != nil || fence < 1 {
			return "fence has to be a whole number, from 1."
		}
		n.about.Fence = fence
	}
	n.about.DownstreamKey, n.about.DownstreamID = n.DownstreamKey, n.DownstreamID
	switch {
	case n.Key == "" && n.DownstreamKey == "" && n.DownstreamID == "":
		return "The notice names no record: it needs key, downstream_key or downstream_id."
	case n.Outcome == "not-executed" && n.Fence == "":
		return `A notice with "not-executed" needs the fence that the upstream was sent (Stet-Fence): it frees the key, and may be ` +
			"about an earlier execution."
	case n.Outcome == "completed" && n.Fence == "" && n.DownstreamKey == "" && n.DownstreamID == "":
		return `A notice with "completed" needs the fence that the upstream was sent (Stet-Fence), downstream_key or downstream_id: ` +
			"the key alone may be used again later."
	case n.Outcome == "not-executed":
		return ""
	case n.Outcome != "completed":
		return `outcome has to be "completed" or "not-executed".`
	case n.Status < 200 || n.Status > 599:
		return "status has to be that of the answer, 200 to 599."
	}
	return n.respond()
}

// respond makes the response of what was completed.
func (n *notice) respond() (problem string) {
	res := &n.resolution
	res.Response = &stet.Response{Status: n.Status, Body: n.Body}
	var fields []stet.Field
	for name, values := range n.Headers {
		for _, v := range values {
			if !canon.IsToken(name) || strings.ContainsAny(v, "\r\n\x00") {
				return "headers have a name or a value that no header can have."
			}
			fields = append(fields, stet.Field{Name: http.CanonicalHeaderKey(name), Value: v})
		}
	}
	slices.SortStableFunc(fields, func(a, b stet.Field) int { return strings.Compare(a.Name, b.Name) })
	res.Response.Header = stethttp.Replayable(fields)
	if n.Body == nil && n.Headers == nil {
		res.Kept = stet.KeptStatus
	}
	return ""
}

// isCalled reports whether other systems know the record by each name that the notice gives.
func (n *notice) isCalled(h *stet.Head) bool {
	return (n.DownstreamID == "" || n.DownstreamID == h.DownstreamID) &&
		(n.DownstreamKey == "" || n.DownstreamKey == h.DownstreamKey || n.DownstreamKey == h.LifeKey())
}
