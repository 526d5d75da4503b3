package admin

import (
	"cmp"
	"errors"

	"github.com/stet-dev/stet"
)

// Erasure is the body of POST /api/v1/audit/erase: whose entries are to be erased, by their scope,
// by scope and key, or by a record's id, and why.
type Erasure struct {
	Scope string `json:"scope,omitzero"`
	Key   string `json:"key,omitzero"` // in the scope, which may be ""
	ID    string `json:"id,omitzero"`  // as lists show it; it does not find entries made with another pepper
	// Reason is kept in the audit trail. It must not name what is erased.
	Reason   string `json:"reason"`
	Evidence string `json:"evidence,omitzero"` // likewise; the trail has the number of entries in its place at the end
}

// Erased is what POST /api/v1/audit/erase did.
type Erased struct {
	Erased int `json:"erased"` // entries
}

// erase answers POST /api/v1/audit/erase. After an error a part may be done, and the same request
// goes on with the rest.
func (h *handler) erase(c *call) (any, error) {
	var n note
	var scope, key, id *string
	err := h.read(c, map[string]any{"reason": &n.reason, "evidence": &n.evidence, "scope": &scope, "key": &key, "id": &id})
	if err = cmp.Or(err, n.unreasoned()); err != nil {
		return nil, err
	}
	var q stet.HistoryQuery
	if scope != nil {
		q.Scope = stet.Scope(*scope)
	}
	switch {
	case key != nil && scope == nil:
		return nil, badParameter("scope", "a key needs its scope; in JSON it may be the empty text")
	case key != nil && id != nil:
		return nil, badParameter("id", "name a key or an id, not both")
	case key != nil && *key == "" || id != nil && !isTag(*id):
		return nil, badParameter(map[bool]string{true: "id", false: "key"}[id != nil], "it is no key, and no id such as lists show it (k_ and 16 hex digits)")
	case key != nil:
		q.ID, q.Scope = stet.ID{Scope: q.Scope, Key: stet.Key(*key)}, ""
	case id != nil:
		q.Tag = *id
	}
	if err := c.who.reaches(&q); err != nil {
		return nil, err
	}
	if q.Erasable() != nil {
		return nil, badParameter("scope", "name whose entries are to be erased: a scope, a scope and a key, or a record's id")
	}
	erased, err := h.engine.Operator().Erase(c.Context(), q, n.by(c.who))
	switch {
	case errors.Is(err, stet.ErrQuoted):
		return nil, badParameter("reason", "it names what is to be erased, and stays in the audit trail; say it in other words, such as the number of the request")
	case errors.Is(err, stet.ErrUnsupported):
		return nil, noHistory
	case err != nil:
		return nil, unavailable
	}
	h.Log.Info("the audit trail was erased in part", "who", c.who.name, "entries", erased)
	return Erased{erased}, nil
}

// reaches fills in the one scope that p may see, and says no to any other.
func (p principal) reaches(q *stet.HistoryQuery) error {
	if q.ID != (stet.ID{}) {
		return p.within(&q.ID.Scope)
	}
	if err := p.within(&q.Scope); err != nil {
		return err
	}
	if p.bound() && q.Scope == "" {
		return forbidden(p.name + " is bound to scopes: name the one.")
	}
	return nil
}
