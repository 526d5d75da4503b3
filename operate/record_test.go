package operate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/fill"
)

// unshown are the fields of a head that operators do not see in a record's document.
var unshown = []string{"Key", "Tag", "Fingerprint", "Meta", "DownstreamKey", "DownstreamID", "Kept", "Published", "Reconciled",
	"Rules", "Note", "DueIn", "AsOf"} // Key is revealed, Tag comes as the document's id

// A field of a head is in the document that operators see, or listed as one that is not.
func TestOperatorsSeeEveryField(t *testing.T) {
	plain := newRecord("", &stet.Head{State: stet.Running})
	for f := range reflect.TypeFor[stet.Head]().Fields() {
		if f.Anonymous {
			continue // scope and key
		}
		h := stet.Head{State: stet.Running}
		v := reflect.ValueOf(&h).Elem().FieldByIndex(f.Index)
		switch {
		case f.Name == "State":
			h.State = stet.Completed
		case f.Name == "Took":
			h.Took = 1e6
		case f.Name == "Size":
			h.Status, h.Size = 200, 1
		case f.Type.String() == "time.Time":
			v.Set(reflect.ValueOf(plain.CreatedAt.AddDate(1, 0, 0)))
		default:
			fill.Zero(v.Addr().Interface())
		}
		if shown := !reflect.DeepEqual(newRecord("", &h), plain); shown == slices.Contains(unshown, f.Name) {
			t.Errorf("Head.%s: newRecord has to show it, or unshown to list it", f.Name)
		}
	}
}
