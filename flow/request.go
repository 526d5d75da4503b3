package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/stet-dev/stet"
)

// begin asks for the key of a request. cannot is why this release cannot go on with the record,
// which is untouched then.
func (f *Flow[S]) begin(ctx context.Context, q stet.Request, s *S) (d stet.Decision, cannot, err error) {
	if q.Keep, err = f.encode(s, progress{Left: f.left(make([]bool, len(f.phases)), 0)}); err != nil {
		return d, nil, err
	}
	q.Point, q.Operation = f.point(0), cmp.Or(q.Operation, "flow "+f.cfg.Name)
	may := q.Continue
	q.Continue = func(r *stet.Record) bool {
		cannot = f.knows(r)
		return cannot == nil && (may == nil || may(r))
	}
	d, err = f.ask(ctx, q, s)
	if err != nil || d.Verdict != stet.InProgress {
		cannot = nil
	}
	return d, cannot, err
}

// ask compares a request that has no Subject by the fields that its state had when the record was
// made: a later release may have more of them.
func (f *Flow[S]) ask(ctx context.Context, q stet.Request, s *S) (stet.Decision, error) {
	if q.Subject.Method != "" || q.Subject.Path != "" || q.Subject.Body != nil {
		return f.cfg.Engine.Begin(ctx, q)
	}
	state, err := json.Marshal(s)
	if err != nil {
		return stet.Decision{}, err
	}
	bare := q
	bare.Subject.Body = state
	if q.Recipe != nil {
		return f.cfg.Engine.Begin(ctx, bare)
	}
	q.Subject = stet.Subject{Header: map[string][]string{"Content-Type": {"application/json"}}, Body: state}
	q.Recipe = recipe(state)
	d, err := f.cfg.Engine.Begin(ctx, q)
	if err != nil || d.Verdict != stet.Mismatch {
		return d, err
	}
	// A record of a former version compares the bytes of the state.
	if former, err := f.cfg.Engine.Begin(ctx, bare); err != nil || former.Verdict != stet.Mismatch {
		return former, err
	}
	return d, nil
}

// recipe compares the fields of a state, each that is no object itself; all of the state where it
// has none, or too many to be named in a record.
func recipe(state []byte) *stet.Fingerprinter {
	var fields map[string]any
	if json.Unmarshal(state, &fields) == nil {
		for _, pointers := range [][]string{leaves(fields, ""), names(fields)} {
			if r, err := (stet.Recipe{Body: stet.BodyFields, Fields: pointers}).Compile(); err == nil {
				return r
			}
		}
	}
	r, err := stet.Recipe{}.Compile()
	if err != nil {
		panic("flow: the default recipe: " + err.Error())
	}
	return r
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// leaves are the JSON pointers to all that is no object.
func leaves(object map[string]any, at string) (pointers []string) {
	for name, value := range object {
		pointer := at + "/" + escapes.Replace(name)
		if inner, ok := value.(map[string]any); ok {
			pointers = append(pointers, leaves(inner, pointer)...)
		} else {
			pointers = append(pointers, pointer)
		}
	}
	return pointers
}

// names are the JSON pointers to the members of an object.
func names(object map[string]any) (pointers []string) {
	for name := range object {
		pointers = append(pointers, "/"+escapes.Replace(name))
	}
	return pointers
}
