package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// healthcheckCmd asks a gateway whether it is ready, for containers that have no curl. It shows no
// token: /readyz wants none.
type healthcheckCmd struct{ place }

func (c *healthcheckCmd) Run(w *world) error {
	if c.Admin == "" {
		c.Admin = "http://127.0.0.1:8081"
	}
	a, err := c.remote()
	if err != nil {
		return err
	}
	defer a.close()
	ctx, cancel := context.WithTimeout(w.ctx, knockTimeout)
	defer cancel()
	res, err := a.send(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err != nil {
		return a.unreachable(err)
	}
	text := strings.TrimSpace(string(said))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway is not ready: %s", text)
	}
	_, err = fmt.Fprintln(w.stdout, text)
	return err
}
