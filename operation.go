package stet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"strconv"
)

// MaxOperation is how many bytes the name of an operation has at most: see [Request].Operation.
const MaxOperation = 255

// operationName is where a record's operation is in [Head.Meta], beside attentionName.
const operationName = " operation"

// partOperation is its name in [Decision].Mismatch.
const partOperation = "operation"

// Operation returns what the record's key is for, or "" if it was not named: see
// [Request].Operation.
func (h *Head) Operation() string { return h.Meta[operationName] }

// withOperation returns a caller's Meta with the name of its operation.
func withOperation(meta map[string]string, operation string) (map[string]string, error) {
	for _, own := range [...]string{attentionName, operationName} {
		if _, there := meta[own]; there {
			return nil, fmt.Errorf("the name %q in Meta is Stet's own: use another", own)
		}
	}
	switch {
	case operation == "":
		return meta, nil
	case len(operation) > MaxOperation:
		return nil, fmt.Errorf("the name of the operation has %d bytes; at most %d are stored", len(operation), MaxOperation)
	}
	if meta = maps.Clone(meta); meta == nil {
		meta = make(map[string]string, 1)
	}
	meta[operationName] = operation
	return meta, nil
}

// keepOperation keeps the operation of a record that a request takes over which names none.
func (h *Head) keepOperation(have *Head) {
	if was := have.Operation(); was != "" && h.Operation() == "" {
		h.Meta, _ = withOperation(h.Meta, was)
	}
}

// otherOperation reports whether two name different operations. One that names none, such as a
// record of a former version, may be of any.
func otherOperation(a, b map[string]string) bool {
	x, y := a[operationName], b[operationName]
	return x != "" && y != "" && x != y
}

// operationOf names the operation whose result has the type t, for a caller that gives no name.
func operationOf(t reflect.Type) string {
	name := typeName(t)
	if len(name) > MaxOperation {
		sum := sha256.Sum256([]byte(name))
		name = "type " + hex.EncodeToString(sum[:16])
	}
	return name
}

// typeName names a type by the named types in it. A change of their fields does not change it.
func typeName(t reflect.Type) string {
	switch {
	case t.Name() != "" && t.PkgPath() != "":
		return t.PkgPath() + "." + t.Name()
	case t.Name() != "":
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		return "[]" + typeName(t.Elem())
	case reflect.Array:
		return "[" + strconv.Itoa(t.Len()) + "]" + typeName(t.Elem())
	case reflect.Map:
		return "map[" + typeName(t.Key()) + "]" + typeName(t.Elem())
	default: // a struct or an interface without a name
		return t.Kind().String()
	}
}
