package stet_test

import (
	"testing"

	"github.com/stet-dev/stet"
)

func TestQueryMatches(t *testing.T) { // D04, D06
	h := stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Tag: "k_1", State: stet.Unknown, Path: "/p", Method: "POST", Cause: "panic", TraceID: "t", Escalated: true}
	for _, q := range []stet.Query{{}, {Tag: "k_1"}, {Key: "k"}, {Path: "/p"}, {Method: "POST"}, {Cause: "panic"}, {TraceID: "t"}, {Escalated: true},
		{Scope: "s", Key: "k", Tag: "k_1", Escalated: true, Oldest: true}} {
		if !q.Matches(&h) {
			t.Errorf("%+v does not select it", q)
		}
	}
	for _, q := range []stet.Query{{Tag: "k_2"}, {Key: "K"}, {Path: "/p/"}, {Method: "post"}, {Cause: "other"}, {TraceID: "T"}} {
		if q.Matches(&h) {
			t.Errorf("%+v selects it", q)
		}
	}
	dead, ended, probed := stet.Query{Escalated: true}, h, h
	ended.State, probed.Escalated = stet.Completed, false
	if dead.Matches(&ended) || dead.Matches(&probed) {
		t.Error("what ended after all, or is still probed, is taken for a dead letter")
	}
}
