package canon

import (
	"bytes"
	"slices"

	"github.com/stet-dev/stet/internal/hexdigit"
)

// Form is a list of name-value pairs: a query, or a body of application/x-www-form-urlencoded. It
// is read as the URL Standard's urlencoded parser reads it, but that it refuses what readers
// disagree on.
//
// Memory: 12 bytes a pair, so at most 6 for each byte read, and the decoded text.
type Form struct {
	pairs []pair
	text  []byte
}

// pair is text[name:value] and text[value:end].
type pair struct{ name, value, end uint32 }

// Parse reads src and keeps no reference to it. It reports false for a percent sign without two
// hexadecimal digits, and for a bare semicolon, which some readers take for a separator and others
// do not.
func (f *Form) Parse(src []byte) bool {
	f.pairs, f.text = f.pairs[:0], f.text[:0]
	if uint64(len(src)) > maxJSON || bytes.IndexByte(src, ';') >= 0 {
		return false
	}
	for len(src) > 0 {
		var one []byte
		one, src, _ = bytes.Cut(src, []byte("&"))
		if len(one) == 0 {
			continue
		}
		name, value, _ := bytes.Cut(one, []byte("="))
		p := pair{name: uint32(len(f.text))}
		ok := f.decode(name)
		p.value = uint32(len(f.text))
		if !ok || !f.decode(value) {
			return false
		}
		p.end = uint32(len(f.text))
		f.pairs = append(f.pairs, p)
	}
	return true
}

// Encoded reports whether src may be a form's body: each pair has a "=", and no byte is one that
// every encoder of forms writes as a percent sign and two digits, but that stands in JSON and XML.
func Encoded(src []byte) bool {
	if bytes.ContainsAny(src, "\"{}<>") {
		return false
	}
	for pair := range bytes.SplitSeq(src, []byte("&")) {
		if len(pair) > 0 && bytes.IndexByte(pair, '=') < 0 {
			return false
		}
	}
	return true
}

// Drop leaves out the pairs that have one of these names.
func (f *Form) Drop(names []string) {
	f.pairs = slices.DeleteFunc(f.pairs, func(p pair) bool { return slices.Contains(names, string(f.text[p.name:p.value])) })
}

// Write writes the pairs ordered by name; those of one name keep their order, which may matter. So
// do, all together and after the others, those with "[]" in their names: readers such as Rack and
// PHP make lists of them, and begin a new element where a name comes again, so that their order
// across names says which values belong together.
func (f *Form) Write(w *Writer) {
	f.write(w, func(a, b pair) int {
		listA, listB := f.list(a), f.list(b)
		switch {
		case listA && listB:
			return 0
		case listA:
			return 1
		case listB:
			return -1
		}
		return f.byName(a, b)
	})
}

// WriteByName writes the pairs ordered by name alone; those of one name keep their order.
func (f *Form) WriteByName(w *Writer) { f.write(w, f.byName) }

func (f *Form) write(w *Writer, order func(a, b pair) int) {
	slices.SortStableFunc(f.pairs, order)
	w.Uint(len(f.pairs))
	for _, p := range f.pairs {
		w.Bytes(f.text[p.name:p.value])
		w.Bytes(f.text[p.value:p.end])
	}
}

func (f *Form) byName(a, b pair) int {
	return bytes.Compare(f.text[a.name:a.value], f.text[b.name:b.value])
}

// list reports whether the pair is an element of a list, or of one of its elements.
func (f *Form) list(p pair) bool { return bytes.Contains(f.text[p.name:p.value], []byte("[]")) }

// Release drops scratch space that has grown beyond what is worth keeping.
func (f *Form) Release() {
	const keep = 1 << 18
	f.pairs, f.text = kept(f.pairs, keep/12), kept(f.text, keep)
}

func (f *Form) decode(s []byte) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch c {
		case '+':
			c = ' '
		case '%':
			if i+2 >= len(s) {
				return false
			}
			high, low := hexdigit.Value(s[i+1]), hexdigit.Value(s[i+2])
			if high|low < 0 { // one of them is none
				return false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		f.text = append(f.text, c)
	}
	return true
}
