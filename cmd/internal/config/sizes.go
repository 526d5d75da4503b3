package config

import (
	"fmt"

	"github.com/stet-dev/stet"
)

// Fits returns [Errors] about settings that allow more than a store takes: such a request would be
// refused, or its result not be kept.
func (c *Config) Fits(most stet.Sizes) error {
	var found Errors
	over := func(path string, is, most int64, format string, args ...any) {
		if most > 0 && is > most {
			found = append(found, c.Fault(path, "it is %d, and the store takes "+format, append([]any{is}, args...)...))
		}
	}
	scope := int64(c.Limits.MaxScopeBytes)
	over("limits.max_scope_bytes", scope, int64(most.Scope), "scopes of up to %d bytes: lower it", most.Scope)
	c.eachPolicy(func(path string, p *Policy) {
		key := int64(p.Key.MaxLen)
		over(path+".key.max_len", key, int64(most.Key), "keys of up to %d bytes: lower it", most.Key)
		if names := int64(most.Names); names > 0 {
			over(path+".key.max_len", key, max(names-scope, 1),
				"%d bytes of a key and its scope together, whose limits.max_scope_bytes is %d: lower one of them", most.Names, scope)
		}
		if body := most.Body; body > 0 {
			over(path+".max_response_bytes", p.MaxResponseBytes, max(body-p.MaxHeaderBytes, 1),
				"%d bytes of a response together with its header, whose max_header_bytes is %d: lower it%s", body, p.MaxHeaderBytes, raise(most.Setting))
		}
	})
	return found.Err()
}

// eachPolicy calls f with the file's policy, and with those of routes in which a size is another.
func (c *Config) eachPolicy(f func(path string, p *Policy)) {
	f("policy", &c.Policy)
	for i := range c.Routes {
		own := c.Routes[i].Policy
		if own.Key.MaxLen != c.Policy.Key.MaxLen || own.MaxResponseBytes != c.Policy.MaxResponseBytes || own.MaxHeaderBytes != c.Policy.MaxHeaderBytes {
			f(fmt.Sprintf("routes[%d].policy", i), &own)
		}
	}
}

func raise(setting string) string {
	if setting == "" {
		return ""
	}
	return ", or raise " + setting
}
