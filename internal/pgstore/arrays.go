package pgstore

// arrays turns the arguments of many writes of one verb into an array for each column.
func arrays(batch []*op) []any {
	all := make([]any, len(batch[0].args), len(batch[0].args)+1)
	for i, first := range batch[0].args {
		switch first.(type) {
		case string:
			all[i] = array[string](batch, i)
		case []byte:
			all[i] = array[[]byte](batch, i)
		default:
			all[i] = numbers(batch, i)
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
