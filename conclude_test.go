package stet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// evidenceKinds are all statements about a record in doubt, as far as conclude tells them apart.
var evidenceKinds = []struct {
	name string
	r    Resolution
}{
	{"nothing happened", Resolution{}},
	{"nothing happened, and an admin overrides", Resolution{Override: true}},
	{"it happened: 201, without a body", Resolution{Response: &Response{Status: 201}, Kept: KeptStatus}},
	{"it happened: 201, with the body that is held", Resolution{Response: &Response{Status: 201, Body: []byte("paid")}}},
	{"it happened: 201, with another body", Resolution{Response: &Response{Status: 201, Body: []byte("receipt")}}},
	{"it happened: 201, with a probe's own body", Resolution{Response: &Response{Status: 201, Body: []byte("found")}, Substitute: true}},
	{"it happened: 201, with another body, and an admin overrides",
		Resolution{Response: &Response{Status: 201, Body: []byte("receipt")}, Override: true}},
	{"it was refused: 402", Resolution{Response: &Response{Status: 402}, Kept: KeptStatus}},
}

// heldKinds are all that may be held of the handler's own answer.
var heldKinds = []struct {
	name string
	h    Head
	b    Body
}{
	{"nothing", Head{}, Body{}},
	{"201, whole", Head{Status: 201, Size: 4}, Body{Response: &Response{Status: 201, Body: []byte("paid")}}},
	{"201, status and size", Head{Status: 201, Size: 4, Kept: KeptStatus}, Body{Response: &Response{Status: 201}}},
	{"402, whole", Head{Status: 402, Size: 8}, Body{Response: &Response{Status: 402, Body: []byte("declined")}}},
	{"nothing, and bytes of an answer have left", Head{Published: true}, Body{}},
}

// concluded says what conclude makes of evidence and what is held.
func concluded(r *Resolution, h *Head, b *Body) string {
	got, err := r.conclude(h, b)
	switch {
	case errors.Is(err, ErrContradicted):
		return "stays unknown: contradicted"
	case errors.Is(err, ErrState) && r.Response == nil:
		return "stays unknown: it happened"
	case errors.Is(err, ErrState):
		return "stays unknown: give the status alone"
	case err != nil:
		return err.Error()
	case got.state == Retryable:
		return "**free**: one retry may run"
	case b.Response != nil && got.response == b.Response:
		return "replays the handler's answer"
	case got.response == r.Response:
		return "replays the evidence"
	}
	return fmt.Sprintf("%+v", got)
}

// evidenceTable is the table of docs/states.md.
func evidenceTable() string {
	var text strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	names := make([]string, len(heldKinds))
	for i, k := range heldKinds {
		names[i] = k.name
	}
	line(append([]string{"evidence \\ what is held of the handler's answer"}, names...)...)
	text.WriteString(strings.Repeat("|---", len(names)+1) + "|\n")
	for _, e := range evidenceKinds {
		cells := []string{e.name}
		for _, k := range heldKinds {
			cells = append(cells, concluded(&e.r, &k.h, &k.b))
		}
		line(cells...)
	}
	return text.String()
}

// What holds of each combination, whatever the table says.
func TestEvidenceDecidesWhetherAndTheAnswerWhat(t *testing.T) { // K02
	for _, e := range evidenceKinds {
		for _, k := range heldKinds {
			h, b := k.h, k.b
			got, err := e.r.conclude(&h, &b)
			says := func(f string, args ...any) { t.Errorf("%s, held is %s: %s", e.name, k.name, fmt.Sprintf(f, args...)) }
			happened := e.r.Response != nil
			switch {
			case err != nil && got != (conclusion{}):
				says("%v, and %+v", err, got)
			case err == nil && happened != (got.state == Completed):
				says("it is %s", got.state)
			case err == nil && !happened && (h.Published || b.Response != nil && !e.r.Override):
				says("a key is free whose effect was answered")
			case err == nil && happened && !e.r.Override && b.Response != nil && (got.response != b.Response || got.status != h.Status || got.size != h.Size || got.kept != h.Kept):
				says("its first answer is lost: %+v", got)
			case err == nil && happened && h.Published && got.kept != KeptStatus:
				says("another answer follows bytes that have left: %+v", got)
			case err == nil && happened && !slices.Contains([]int{e.r.Response.Status, h.Status}, got.status):
				says("%d", got.status)
			}
		}
	}
}

// An answer that is held, and whose first bytes were sent before it was stored, is known by its
// status alone.
func TestAPublishedAnswerIsHeldByItsStatus(t *testing.T) { // K02
	h, b := Head{Published: true, Status: 201, Size: 4}, Body{Response: &Response{Status: 201, Body: []byte("paid")}}
	r := Resolution{Response: &Response{Status: 201}, Kept: KeptStatus}
	if got, err := r.conclude(&h, &b); err != nil || got.kept != KeptStatus || got.status != 201 || got.size != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}
