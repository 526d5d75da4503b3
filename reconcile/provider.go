package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// provider is one way to sign and to write notices. A new one is a file with its functions, and a
// row of providers.
type provider struct {
	// Verify reads what the headers of a notice say about its signature. It reports false if no
	// body could make them those of a signed notice: bodies are large and anyone may send them, so
	// that none is read before that.
	Verify func(h http.Header) (signature, bool)
	// Decode reads the body of a notice that was signed, or says in a sentence what is wrong with
	// it.
	Decode func(body []byte) (n *notice, problem string)
	// Secret returns the key in a secret, or an error that says what a secret looks like and never
	// holds it.
	Secret func(text string) ([]byte, error)
}

// signature is what the headers of a notice say about it.
type signature struct {
	ID string    // of the notice: the same when it is delivered again
	At time.Time // when it was signed
	// Signs reports, in constant time, whether key has signed the body.
	Signs func(key, body []byte) bool
}

// standard is the name of the provider that a [Webhook] has by default.
const standard = "standard-webhooks"

var providers = map[string]provider{
	standard: {verifyStandard, decodeStandard, standardSecret},
}

// provider returns what h is configured to accept.
func (h *Webhook) provider() (provider, error) {
	p, ok := providers[cmp.Or(h.Provider, standard)]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(providers)), ", ")
		return p, fmt.Errorf("reconcile: there is no provider %q; use one of %s", h.Provider, known)
	}
	return p, nil
}
