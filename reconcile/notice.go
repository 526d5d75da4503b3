package reconcile

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Attempt       json.Number // as a number or as a string: it came in a header
	BegunAt       string      // an instant within the attempt
	Fence         json.Number
	Status        int
	Headers       map[string][]string
	Body          []byte
	Evidence      string

	resolution stet.Resolution
	about      stet.Execution
}

// resolve says what the notice means for a record.
func (n *notice) resolve() (problem string) {
	var attempt int64
	if attempt, problem = count("attempt", n.Attempt); problem != "" {
		return problem
	}
	if n.about.Fence, problem = count("fence", n.Fence); problem != "" {
		return problem
	}
	if n.BegunAt != "" {
		var err error
		if n.about.At, err = time.Parse(time.RFC3339, n.BegunAt); err != nil {
			return "begun_at has to be an instant, such as 2026-01-31T12:00:00.123Z."
		}
	}
	n.about.Attempt, n.about.DownstreamKey, n.about.DownstreamID = int(attempt), n.DownstreamKey, n.DownstreamID
	named := n.Fence != "" || n.Attempt != "" && n.BegunAt != ""
	switch {
	case n.Key == "" && n.DownstreamKey == "" && n.DownstreamID == "":
		return "The notice names no record: it needs key, downstream_key or downstream_id."
	case n.Outcome == "not-executed" && !named:
		return `A notice with "not-executed" needs the fence that the upstream was sent (Stet-Fence), or attempt (Stet-Attempt) together ` +
			"with begun_at, an instant within that attempt: it frees the key, and may be about an earlier execution."
	case n.Outcome == "completed" && !named && n.DownstreamKey == "":
		return `A notice with "completed" needs the fence that the upstream was sent (Stet-Fence), attempt (Stet-Attempt) together ` +
			"with begun_at, an instant within that attempt, or downstream_key: the key alone may be used again later."
	case n.Outcome == "not-executed":
		return ""
	case n.Outcome != "completed":
		return `outcome has to be "completed" or "not-executed".`
	case n.Status < 200 || n.Status > 599:
		return "status has to be that of the answer, 200 to 599."
	}
	return n.respond()
}

// count reads a number that, where it is given, is at least 1.
func count(name string, n json.Number) (int64, string) {
	if n == "" {
		return 0, ""
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil || i < 1 || name == "attempt" && i > 1<<31-1 {
		return 0, name + " has to be a whole number, from 1."
	}
	return i, ""
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
