package pgstore

import (
	"fmt"

	"github.com/stet-dev/stet/internal/sqltext"
)

// arrays turns the arguments of many writes into an array for each column.
func arrays(kinds []sqltext.PostgresKind, batch []*op) []any {
	all := make([]any, len(kinds), len(kinds)+1)
	for i, kind := range kinds {
		switch kind {
		case sqltext.PostgresText:
			all[i] = array(batch, i, func(a any) string { return a.(string) })
		case sqltext.PostgresInt:
			all[i] = array(batch, i, whole)
		case sqltext.PostgresBytes:
			values := make([][]byte, len(batch))
			for n, o := range batch {
				values[n], _ = o.args[i].([]byte) // nil is NULL
			}
			all[i] = values
		}
	}
	return all
}

func whole(a any) int64 {
	switch n := a.(type) {
	case int64:
		return n
	case int:
		return int64(n)
	}
	panic(fmt.Sprintf("pgstore: %T is no number", a))
}

// array is a []T, or where a value is missing a []*T.
func array[T any](batch []*op, column int, value func(any) T) any {
	values := make([]T, len(batch))
	missing := false
	for n, o := range batch {
		if a := o.args[column]; a != nil {
			values[n] = value(a)
		} else {
			missing = true
		}
	}
	if !missing {
		return values
	}
	pointers := make([]*T, len(batch))
	for n, o := range batch {
		if o.args[column] != nil {
			pointers[n] = &values[n]
		}
	}
	return pointers
}
