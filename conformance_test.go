package stet_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
)

// modelled are the moves that the model allows, without those that only a dropped rule
// allows.
func modelled(t *testing.T, who string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("internal/model/life.pml")
	if err != nil {
		t.Fatal(err)
	}
	dropped := regexp.MustCompile(`!(FENCING|LAPSE_UNKNOWN|PROOF|KEEP_LIVE|SETTLE|STORE_FIRST|DOUBT|LEARN)\b`)
	move := regexp.MustCompile(`move\(` + who + `, (\w+), (\w+)\)|take\(` + who + `\)`)
	moves := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if dropped.MatchString(line) {
			continue
		}
		for _, m := range move.FindAllStringSubmatch(line, -1) {
			if m[1] == "" {
				m[1], m[2] = "running", "running"
			}
			moves[m[1]+" to "+m[2]] = true
		}
	}
	return moves
}

// situated are records as they may be found: in every state, due and not, by every rule, with
// a recovery point and without.
func situated(now time.Time) (all []stet.Record) {
	for state := stet.Running; state <= stet.Expired; state++ {
		for _, due := range []time.Time{now, now.Add(time.Hour)} {
			for lapse := stet.LapseUnknown; lapse.Valid(); lapse++ {
				for _, point := range []string{"", "charged"} {
					for _, keep := range []time.Duration{0, time.Hour} {
						h := stet.Head{ID: request("k").ID, Version: 7, State: state, Attempt: 1, Point: point, CreatedAt: now, UpdatedAt: now, DueAt: due}
						h.Rules = stet.Rules{Retain: time.Hour, OnLapse: lapse, KeepExpired: keep}
						all = append(all, stet.Record{Head: h})
					}
				}
			}
		}
	}
	return all
}

// TestModelMovesAsKeepersDo lets everybody but requests, whom judge rules (see
// TestModelMovesAsJudgeRules), act on every situation: what they then do to the record are the
// moves of the model, all of them and no others. (Operators purge and extend as the reaper and
// retention do.)
func TestModelMovesAsKeepersDo(t *testing.T) {
	note := stet.Note{Who: "who", Why: "why"}
	for who, acts := range map[string][]func(context.Context, *stet.Engine, stet.ID){
		"sweeper": {func(ctx context.Context, e *stet.Engine, _ stet.ID) { _, _, _ = e.Operator().Sweep(ctx, "", 0) }},
		"reaper":  {func(ctx context.Context, e *stet.Engine, _ stet.ID) { _, _, _ = e.Operator().Reap(ctx, "", 0) }},
		"completer": {func(ctx context.Context, e *stet.Engine, id stet.ID) {
			_, _, _ = e.Operator().Abandoned(ctx, stet.Query{})
			_, _ = e.Operator().Resume(ctx, id)
		}},
		"reconciler": {
			func(ctx context.Context, e *stet.Engine, id stet.ID) {
				_, _ = e.Operator().Resolve(ctx, id, execution.Of(t.Context(), e, id), stet.Resolution{Response: &stet.Response{Status: 201}}, note)
			},
			func(ctx context.Context, e *stet.Engine, id stet.ID) {
				_, _ = e.Operator().Resolve(ctx, id, execution.Of(t.Context(), e, id), stet.Resolution{}, note)
			},
			func(ctx context.Context, e *stet.Engine, id stet.ID) {
				_, _ = e.Operator().Reopen(ctx, id, execution.Of(t.Context(), e, id), stet.Step{Point: "charged"}, note)
			},
		},
	} {
		made := map[string]bool{}
		shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
			for _, r := range situated(s.now()) {
				for _, act := range acts {
					s.put(r)
					act(t.Context(), e, r.ID)
					s.compare(&r, made)
				}
			}
		})
		if who == "reconciler" { // it has noticed a lapse, as the sweeper does
			delete(made, "running to unknown")
		}
		sameMoves(t, who, made)
	}
}

// TestModelMovesAsHoldersDo does the same for one that has, or had, the claim.
func TestModelMovesAsHoldersDo(t *testing.T) {
	claims := []func(c *stet.Claim){(*stet.Claim).Completed, func(c *stet.Claim) { c.NotExecuted("proof") }, func(c *stet.Claim) { c.Unknown("doubt") }}
	made := map[string]bool{}
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		run := func(before func(c *stet.Claim), act func(c *stet.Claim)) {
			s.remove(request("k").ID)
			c := must(t, e, resumable("k"), stet.Execute).Claim
			before(c)
			was, _ := s.read(c.ID())
			act(c)
			s.compare(&was, made)
		}
		nothing := func(*stet.Claim) {}
		run(nothing, func(c *stet.Claim) { _ = c.Renew(t.Context()) })
		run(nothing, func(c *stet.Claim) { _ = c.Step(t.Context(), stet.Step{Point: "second"}) })
		run(nothing, func(c *stet.Claim) { _ = c.Suspend(t.Context(), stet.Step{Point: "second"}, time.Hour) })
		for _, state := range claims {
			settle := func(c *stet.Claim) {
				state(c)
				_ = c.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 200}})
			}
			run(nothing, settle)
			for first, earlier := range claims {
				run(func(c *stet.Claim) {
					earlier(c)
					_ = c.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 200}})
				}, settle)
				for then := stet.Running; then <= stet.Expired; then++ { // and it was overtaken
					if first > 0 {
						break
					}
					run(func(c *stet.Claim) {
						s.change(c.ID(), func(r *stet.Record) { r.Version, r.State = r.Version+2, then })
					}, settle)
				}
			}
		}
	})
	sameMoves(t, "holder", made)
}

func sameMoves(t *testing.T, who string, made map[string]bool) {
	t.Helper()
	if want := modelled(t, who); !maps.Equal(made, want) {
		t.Errorf("a %s moves a record\nin the model  %v\nby the engine %v", who, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(made)))
	}
}

func (s *fakeStore) put(r stet.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		s.calls, s.records = map[string]int{}, map[stet.ID]stet.Record{}
	}
	s.records[r.ID] = r
}

func (s *fakeStore) remove(id stet.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, id)
}

// compare notes the move from was to what is there now.
func (s *fakeStore) compare(was *stet.Record, moves map[string]bool) {
	now, there := s.read(was.ID)
	switch {
	case !there:
		moves[was.State.String()+" to none"] = true
	case now.Version != was.Version:
		moves[was.State.String()+" to "+now.State.String()] = true
	}
}
