package stet

// Operator is what operators and background loops do with the records of an [Engine]: they look at
// them, end what is unknown on evidence, and move what has fallen due. Nothing on the path of a
// request needs it. It is safe for concurrent use.
type Operator struct{ e *Engine }

// Operator returns the operator's side of the engine.
func (e *Engine) Operator() *Operator { return &Operator{e} }
