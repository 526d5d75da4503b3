package badnet

import "github.com/stet-dev/stet"

// Copied returns the body as it is now, for a message on its way: its owner may use it again before
// a copy of it arrives.
func Copied(b *stet.Body) *stet.Body {
	if b == nil {
		return nil
	}
	c := *b
	if b.Response != nil {
		r := *b.Response
		c.Response = &r
	}
	return &c
}
