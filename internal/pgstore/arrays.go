package pgstore

import (
	"github.com/stet-dev/stet/internal/sqltext"
)

// arrays turns the arguments of many writes into an array for each column.
func arrays(kinds []sqltext.PostgresKind, batch []*op) []any {
	all := make([]any, len(kinds), len(kinds)+1)
	for i, kind := range kinds {
		switch kind {
		case sqltext.PostgresText:
			all[i] = array[string](batch, i)
		case sqltext.PostgresInt:
			all[i] = numbers(batch, i)
		case sqltext.PostgresBytes:
			all[i] = array[[]byte](batch, i)
		}
	}
	return all
}

func array[T any](batch []*op, column int) []T {
	values := make([]T, len(batch))
	for n, o := range batch {
		values[n] = o.args[column].(T)
	}
	return values
}

// numbers is a []int64, or where a value is missing a []*int64.
func numbers(batch []*op, column int) any {
	values, pointers := make([]int64, len(batch)), make([]*int64, len(batch))
	missing := false
	for n, o := range batch {
		if a := o.args[column]; a != nil {
			values[n] = a.(int64)
			pointers[n] = &values[n]
		} else {
			missing = true
		}
	}
	if missing {
		return pointers
	}
	return values
}
