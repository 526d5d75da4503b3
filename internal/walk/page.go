package walk

// Page gathers what a query selects of rows that come in an order. It looks at a bounded number of
// rows, so that a filter costs the reader pages and not the store a walk through everything.
type Page[T, C any] struct {
	Most int // of rows that are selected
	Look int // rows to look at

	Rows []T
	Last C    // the place of the row that was looked at last
	More bool // there is another row behind it, or may be
}

// Add takes the next row, which stands at a place. It reports whether the page takes more.
func (p *Page[T, C]) Add(at C, row T, selected bool) bool {
	if p.Look == 0 || selected && len(p.Rows) == p.Most {
		p.More = true
		return false
	}
	if p.Look, p.Last = p.Look-1, at; selected {
		p.Rows = append(p.Rows, row)
	}
	return true
}

// Takes reports whether the page takes the row at a place, before it is read. The caller appends it
// to Rows if it is selected.
func (p *Page[T, C]) Takes(at C) bool {
	if p.More = p.Look == 0 || len(p.Rows) == p.Most; p.More {
		return false
	}
	p.Look, p.Last = p.Look-1, at
	return true
}

// Next returns the cursor of the next page, made of the last place, or "" if there is none.
func (p *Page[T, C]) Next(cursor func(last C) string) string {
	if !p.More {
		return ""
	}
	return cursor(p.Last)
}
