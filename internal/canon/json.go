package canon

import "math"

// Limits of a JSON document. Beyond them Parse refuses.
const (
	// MaxDepth is how deep arrays and objects may nest. It bounds the recursion here; no sane
	// request comes near it.
	MaxDepth = 512
	// maxValues is how many values and names a document may have: 16 MiB of tape.
	maxValues = 1 << 20
	// maxJSON is the longest text whose offsets fit a node.
	maxJSON = math.MaxUint32
)

// Doc is a JSON text, read once into a tape of nodes, the members of every object in the order of
// RFC 8785.
//
// Memory: 16 bytes for each value and name, 16 for each name whose object is still open, and
// strings that had escapes once more: at most 9 bytes for each byte of text (the worst is
// `[0,0,0…`), and for moments 2.25 times that while slices grow. Time is linear in the text but for
// the sorting of names.
type Doc struct {
	src     []byte
	nodes   []node   // nodes[0] is the document
	text    []byte   // strings that had escapes, without them
	members []member // names of the objects that are still open, innermost last
}

// node is a value or the name of a member; the value of a name is the node after it.
type node struct {
	// Of a string or number: where its text is. Of an array or object: off is the first element or
	// the first name, 0 if there is none.
	off, end uint32
	next     uint32 // the next element, or the next name; 0 at the end
	kind     kind
	flags    flags
}

type kind uint8

const (
	null kind = iota
	yes
	no
	number
	text
	array
	object
)

type flags uint8

const (
	unescaped flags = 1 << iota // off and end count in Doc.text, not in Doc.src
	integer                     // a number without point and exponent
	dropped                     // excluded: never written, never found
)

// Parse reads src, which must not change while the Doc is used. It reports false, and the Doc is of
// no use, if src is not one JSON value (RFC 8259) that every reader understands alike (RFC 7493):
// when a name is repeated in an object, a string is not valid Unicode (also by an escaped lone
// surrogate), or a limit is exceeded.
func (d *Doc) Parse(src []byte) bool {
	d.nodes, d.text, d.members = d.nodes[:0], d.text[:0], d.members[:0]
	if uint64(len(src)) > maxJSON {
		return false
	}
	d.src = src
	i := d.value(d.space(0), 0)
	return i >= 0 && d.space(i) == len(src)
}

// Release forgets the text, and the scratch space too if it has grown beyond what is worth keeping.
func (d *Doc) Release() {
	const keep = 1 << 20 // bytes, of each kind
	d.src = nil
	d.nodes, d.members, d.text = kept(d.nodes, keep/16), kept(d.members, keep/16), kept(d.text, keep)
}

// kept returns scratch space, or nil if it has room for more than most.
func kept[E any](scratch []E, most int) []E {
	if cap(scratch) > most {
		return nil
	}
	return scratch
}

// value reads the value at i and returns where it ends, or -1.
func (d *Doc) value(i, depth int) int {
	if i >= len(d.src) || len(d.nodes) >= maxValues {
		return -1
	}
	switch c := d.src[i]; {
	case c == '"':
		return d.str(i + 1)
	case c == '{':
		return d.object(i+1, depth+1)
	case c == '[':
		return d.array(i+1, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return d.number(i)
	case c == 't':
		return d.literal(i, yes)
	case c == 'f':
		return d.literal(i, no)
	case c == 'n':
		return d.literal(i, null)
	}
	return -1
}

var literals = [...]string{null: "null", yes: "true", no: "false"}

func (d *Doc) literal(i int, k kind) int {
	word := literals[k]
	end := i + len(word)
	if end > len(d.src) || string(d.src[i:end]) != word {
		return -1
	}
	d.nodes = append(d.nodes, node{kind: k})
	return end
}

func (d *Doc) array(i, depth int) int {
	if depth > MaxDepth {
		return -1
	}
	self := len(d.nodes)
	d.nodes = append(d.nodes, node{kind: array})
	if i = d.space(i); i < len(d.src) && d.src[i] == ']' {
		return i + 1
	}
	d.nodes[self].off = uint32(len(d.nodes))
	for {
		elem := len(d.nodes)
		if i = d.value(i, depth); i < 0 {
			return -1
		}
		if i = d.space(i); i >= len(d.src) {
			return -1
		}
		switch d.src[i] {
		case ',':
			d.nodes[elem].next = uint32(len(d.nodes))
			i = d.space(i + 1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

func (d *Doc) object(i, depth int) int {
	if depth > MaxDepth {
		return -1
	}
	self, base := len(d.nodes), len(d.members)
	d.nodes = append(d.nodes, node{kind: object})
	if i = d.space(i); i < len(d.src) && d.src[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(d.src) || d.src[i] != '"' {
			return -1
		}
		name := len(d.nodes)
		if i = d.str(i + 1); i < 0 {
			return -1
		}
		d.members = append(d.members, member{d.prefix(name), uint32(name)})
		if i = d.space(i); i >= len(d.src) || d.src[i] != ':' {
			return -1
		}
		if i = d.value(d.space(i+1), depth); i < 0 {
			return -1
		}
		if i = d.space(i); i >= len(d.src) {
			return -1
		}
		switch d.src[i] {
		case ',':
			i = d.space(i + 1)
		case '}':
			if !d.close(self, base) {
				return -1
			}
			return i + 1
		default:
			return -1
		}
	}
}

// space returns the first index from i on that is not white space.
func (d *Doc) space(i int) int {
	s := d.src
	for i < len(s) && s[i] <= ' ' && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}
