package admin

// Whoami is the answer of GET /api/v1/whoami: whose token the call came with, and what it allows.
type Whoami struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Scopes  []string `json:"scopes,omitzero"` // as in [Token]
	NoToken bool     `json:"no_token"`        // the call needed none
}

// whoami answers GET /api/v1/whoami.
func (h *handler) whoami(c *call) (any, error) {
	return Whoami{Name: c.who.name, Role: c.who.role.String(), Scopes: c.who.scopes, NoToken: len(h.Tokens) == 0}, nil
}
