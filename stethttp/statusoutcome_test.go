package stethttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// A status means what StatusOutcome says of it, before NoStoreStatus and On5xx; in an answer
// without the header of the API it means nothing.
func TestStatusOutcome(t *testing.T) { // R02, N02
	named := stethttp.Config{StatusOutcome: map[int]stet.State{200: stet.Unknown, 404: stet.Retryable, 429: stet.Completed, 500: stet.Completed, 502: stet.Unknown},
		On5xx: stethttp.ReleaseFailure}
	trusting := stethttp.Config{TrustHeader: "x-api"}
	for _, row := range []struct {
		config stethttp.Config
		status int
		header []string // name and value, if any
		state  stet.State
	}{
		{named, 201, nil, stet.Completed},
		{named, 200, nil, stet.Unknown},
		{named, 404, nil, stet.Retryable},
		{named, 429, nil, stet.Completed},
		{named, 403, nil, stet.Retryable},
		{named, 500, nil, stet.Completed},
		{named, 501, nil, stet.Retryable},
		{named, 502, nil, stet.Unknown},
		{named, 502, []string{"Stet-Outcome", "not-executed"}, stet.Retryable},
		{named, 502, []string{"Stet-Outcome", "completed"}, stet.Completed},
		{stethttp.Config{}, 502, nil, stet.Completed}, // the handler's own answer
		{trusting, 201, []string{"X-Api", "1"}, stet.Completed},
		{trusting, 429, []string{"X-Api", ""}, stet.Retryable},
		{trusting, 201, nil, stet.Unknown},
		{trusting, 429, nil, stet.Unknown},
		{trusting, 503, []string{"Stet-Outcome", "not-executed"}, stet.Retryable},
	} {
		r := newRig(t, row.config, func(w http.ResponseWriter, _ *http.Request) {
			if row.header != nil {
				w.Header().Set(row.header[0], row.header[1])
			}
			w.WriteHeader(row.status)
		})
		if res := r.post("k", "{}"); res.StatusCode != row.status {
			t.Errorf("%d %v: the client got %d", row.status, row.header, res.StatusCode)
		}
		if have := r.state("k"); have != row.state {
			t.Errorf("%d %v: %v, want %v", row.status, row.header, have, row.state)
		}
	}
}

// An envoy in between makes up a grpc-status, too.
func TestTrustHeaderOfGRPC(t *testing.T) {
	r := newRig(t, stethttp.Config{TrustHeader: "X-Api"}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "14")
		w.WriteHeader(200)
	})
	r.post("k", "{}")
	if have := r.state("k"); have != stet.Unknown {
		t.Error(have)
	}
}

func TestStatusOutcomeIsChecked(t *testing.T) {
	for says, c := range map[string]stethttp.Config{
		"StatusOutcome: 42 is no status":     {StatusOutcome: map[int]stet.State{42: stet.Unknown}},
		"StatusOutcome: 600 is no status":    {StatusOutcome: map[int]stet.State{600: stet.Unknown}},
		"StatusOutcome: 502 means running":   {StatusOutcome: map[int]stet.State{502: stet.Running}},
		`TrustHeader: "X Api" is no name`:    {TrustHeader: "X Api"},
		`TrustHeader: "X-Api:" is no name`:   {TrustHeader: "X-Api:"},
		"TrustHeader: \"X-Ä\" is no name of": {TrustHeader: "X-Ä"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
