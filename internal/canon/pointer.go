package canon

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pointer is a JSON pointer (RFC 6901). The zero value points to the whole document.
type Pointer struct{ tokens []token }

type token struct {
	name  string
	index int // as an array index; negative if it is none
}

// ParsePointer reads the string form of a pointer: "" or "/"-separated tokens in which "~1" stands
// for "/" and "~0" for "~".
func ParsePointer(s string) (Pointer, error) {
	var p Pointer
	if s == "" {
		return p, nil
	}
	if s[0] != '/' {
		return p, errors.New(`a JSON pointer begins with "/"`)
	}
	if !utf8.ValidString(s) {
		return p, errors.New("not valid UTF-8")
	}
	for t := range strings.SplitSeq(s[1:], "/") {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(t), "~") {
			return p, errors.New(`"~" must be followed by 0 or 1`)
		}
		name := strings.NewReplacer("~0", "~", "~1", "/").Replace(t)
		p.tokens = append(p.tokens, token{name, arrayIndex(name)})
	}
	return p, nil
}

// arrayIndex reads digits without leading zeros.
func arrayIndex(s string) int {
	if n, err := strconv.Atoi(s); err == nil && strconv.Itoa(n) == s {
		return n
	}
	return -1
}

// Drop takes what p points to out of the document; nothing happens if there is nothing. The other
// elements of an array keep their indexes. The whole document cannot be dropped.
func (d *Doc) Drop(p Pointer) {
	if handle, _, ok := d.find(p); ok {
		d.nodes[handle].flags |= dropped
	}
}

// find returns the value p points to and its handle: the name of a member, the element itself in an
// array. What was dropped, or is inside of what was dropped, is not there.
func (d *Doc) find(p Pointer) (handle, value uint32, ok bool) {
	for i := range p.tokens {
		n := &d.nodes[value]
		switch n.kind {
		case object:
			handle = d.member(n, p.tokens[i].name)
			value = handle + 1
		case array:
			handle = d.element(n, p.tokens[i].index)
			value = handle
		default:
			return 0, 0, false
		}
		if handle == 0 || d.nodes[handle].flags&dropped != 0 {
			return 0, 0, false
		}
	}
	return handle, value, true
}

// member returns the node of a name, or 0.
func (d *Doc) member(n *node, name string) uint32 {
	i := n.off
	for i != 0 && string(d.bytesOf(&d.nodes[i])) != name {
		i = d.nodes[i].next
	}
	return i
}

// element returns the node of an element, or 0.
func (d *Doc) element(n *node, index int) uint32 {
	if index < 0 {
		return 0
	}
	i := n.off
	for ; i != 0 && index > 0; index-- {
		i = d.nodes[i].next
	}
	return i
}
