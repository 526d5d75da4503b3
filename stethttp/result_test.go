package stethttp_test

import (
	"testing"

	"github.com/stet-dev/stet/stethttp"
)

// Every answer of the layer counts as one result of idem_requests_total, and its code alone says as
// which.
func TestEveryCodeHasAResult(t *testing.T) {
	want := map[stethttp.Code]string{
		stethttp.MissingKey: "missing_key", stethttp.InvalidKey: "invalid_key", stethttp.Unauthenticated: "unauthenticated",
		stethttp.KeyReused: "conflict", stethttp.ExpiredKey: "conflict", stethttp.InProgress: "in_progress",
		stethttp.OutcomeUnknown: "unknown", stethttp.ResultNotRetained: "replay", stethttp.PayloadTooLarge: "too_large",
		stethttp.StoreUnavailable: "store_error",
		// What a run ended with counts as the run.
		stethttp.ExecutionTimeout: "", stethttp.UpstreamUnreachable: "", stethttp.UpstreamFailed: "",
	}
	for _, code := range stethttp.Codes() {
		expected, known := want[code]
		if !known {
			expected = "limited"
		}
		if got := stethttp.Result(code); got != expected {
			t.Errorf("%s counts as %q, want %q", code, got, expected)
		}
	}
}
