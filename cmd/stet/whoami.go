package main

import (
	"cmp"
	"strings"

	"github.com/stet-dev/stet/admin"
)

type whoamiCmd struct {
	source
	JSON bool `name:"json" help:"Print the API's document."`
}

func (c *whoamiCmd) Run(w *world, a *api) error {
	return errorOf(shown(w, a, "/api/v1/whoami", c.JSON, func(i *admin.Whoami, w *world) error {
		return pairs(w.stdout, "name", i.Name, "role", i.Role, "scopes", cmp.Or(strings.Join(i.Scopes, ", "), "all"),
			"token", ifTrue(i.NoToken, "none is needed"))
	}))
}
