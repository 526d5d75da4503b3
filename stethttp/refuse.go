package stethttp

import "net/http"

// Refuse answers with p in the form that c asks for. It is for handlers that refuse in the layer's place, as a proxy does
// whose upstream is gone. Where the client has its answer already, what is said here is not taken for a late outcome.
func (c *Config) Refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	if own, ok := w.(*capture); ok {
		own.mu.Lock()
		own.refused = true
		own.mu.Unlock()
	}
	c.tell(w, r, p)
}

// Discard takes back what a guarded handler has answered so far, so that it can give another answer, and reports whether it
// could: not once bytes have left for the client, and not where there is no claim. w is the handler's own ResponseWriter. What the
// handler stated of its claim stays.
func Discard(w http.ResponseWriter) bool {
	c, ok := w.(*capture)
	return ok && c.discard()
}

func (c *capture) discard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase() != holding {
		return false
	}
	clear(c.header)
	c.status, c.sent, c.declared, c.written, c.refused = 0, nil, -1, 0, false
	c.buf.Reset()
	return true
}
