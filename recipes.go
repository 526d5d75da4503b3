package stet

import "sync"

// maxRecipes bounds how many recipes found in records are kept ready; there are as many as configurations had in a retention.
const maxRecipes = 64

// recipes holds what computes fingerprints by the recipes of records.
type recipes struct {
	mu    sync.Mutex
	ready map[string]*Fingerprinter
}

func (r *recipes) get(text string) (*Fingerprinter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.ready[text]; ok {
		return f, nil
	}
	recipe, err := ParseRecipe(text)
	if err != nil {
		return nil, err
	}
	f, err := recipe.Compile()
	if err != nil {
		return nil, err
	}
	if r.ready == nil || len(r.ready) >= maxRecipes {
		r.ready = make(map[string]*Fingerprinter)
	}
	r.ready[text] = f
	return f, nil
}
