package stethttp

import (
	"slices"
	"testing"
)

var (
	phaseNames = [...]string{"holding", "publishing", "streaming", "hijacked", "answered", "lapsed", "doubted", "silent", "ended"}
	eventNames = [...]string{"publish", "published", "hijack", "answer", "lapse", "doubt", "fallSilent", "speak", "end"}
)

// TestMoves is the table of transitions, written a second time: what is not in it must not move an answer.
func TestMoves(t *testing.T) {
	want := map[[2]string]string{
		{"holding", "publish"}: "publishing", {"holding", "hijack"}: "hijacked", {"holding", "answer"}: "answered",
		{"holding", "lapse"}: "lapsed", {"holding", "doubt"}: "doubted", {"holding", "fallSilent"}: "silent",
		{"publishing", "published"}: "streaming", {"publishing", "answer"}: "answered",
		{"streaming", "hijack"}: "hijacked",
	}
	for _, p := range phaseNames {
		want[[2]string{p, "end"}] = "ended"
	}
	want[[2]string{"silent", "end"}] = "silent"
	want[[2]string{"silent", "speak"}] = "ended"
	for from := range phaseNames {
		for e := range eventNames {
			p := progress{}
			p.at.Store(uint32(from))
			moved, to := p.move(event(e)), p.phase()
			expected, allowed := want[[2]string{phaseNames[from], eventNames[e]}]
			if moved != allowed || allowed && phaseNames[to] != expected || !allowed && int(to) != from {
				t.Errorf("%s, %s: %s (%v), want %q", phaseNames[from], eventNames[e], phaseNames[to], moved, expected)
			}
		}
	}
	if len(moves) != len(phaseNames) || int(events) != len(eventNames) {
		t.Error("the test does not know all phases and events")
	}
}

// TestNothingIsTakenBack: whatever happens, a client that was told one thing is never told the other.
func TestNothingIsTakenBack(t *testing.T) {
	reach := func(from phase) []phase {
		seen := []phase{from}
		for i := 0; i < len(seen); i++ {
			for _, to := range moves[seen[i]] {
				if to != holding && !slices.Contains(seen, to) {
					seen = append(seen, to)
				}
			}
		}
		return seen
	}
	for p := range ended + 1 {
		after := reach(p)
		if !slices.ContainsFunc(after, phase.over) {
			t.Errorf("%s never ends", phaseNames[p])
		}
		live := slices.Contains(after, streaming) || slices.Contains(after, hijacked)
		switch {
		case (p.told() || p.over()) && live:
			t.Errorf("after %s the handler may reach the client", phaseNames[p])
		case (p == streaming || p == hijacked || p.over()) && slices.ContainsFunc(after, phase.told):
			t.Errorf("after %s the layer may answer", phaseNames[p])
		}
	}
}
