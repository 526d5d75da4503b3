package reconcile

import (
	"cmp"
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
	Attempt       json.Number // as a number or as a string: it came in a header
	Fence         json.Number
	Status        int
	Headers       map[string][]string
	Body          []byte
	Evidence      string

	resolution stet.Resolution
}

// resolve says what the notice means for a record.
func (n *notice) resolve() (problem string) {
	var attempt int64
	if attempt, problem = count("attempt", n.Attempt); problem != "" {
		return problem
	}
	if n.resolution.Fence, problem = count("fence", n.Fence); problem != "" {
		return problem
	}
	n.resolution.Attempt = int(attempt)
	switch {
	case n.Key == "" && n.DownstreamKey == "" && n.DownstreamID == "":
		return "The notice names no record: it needs key, downstream_key or downstream_id."
	case n.Outcome == "not-executed" && n.Attempt == "" && n.Fence == "":
		return `A notice with "not-executed" needs attempt or fence, as the upstream was sent them (Stet-Attempt, Stet-Fence): ` +
			"it frees the key, and may be about an older attempt than the record's."
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

func (n *notice) id(key string) stet.ID {
	return stet.ID{Scope: cmp.Or(stet.Scope(n.Scope), stethttp.DefaultScope), Key: stet.Key(key)}
}
