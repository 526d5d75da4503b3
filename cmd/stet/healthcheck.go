package main

import (
	"fmt"

	"github.com/stet-dev/stet/admin/adminclient"
)

// healthcheckCmd asks a gateway whether it is ready, for containers that have no curl. It shows no
// token: /readyz wants none.
type healthcheckCmd struct{ place }

func (c *healthcheckCmd) Run(w *world, a *api) error {
	text, ready, err := adminclient.Ready(w.ctx, a.Client)
	switch {
	case err != nil:
		return err
	case !ready:
		return fmt.Errorf("the gateway is not ready: %s", visible(text))
	}
	return w.printf("%s\n", visible(text))
}
