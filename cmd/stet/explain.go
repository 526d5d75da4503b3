package main

import (
	"fmt"
	"strings"

	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/internal/spell"
)

type explainCmd struct {
	Code string `arg:"" optional:"" help:"Code of the problem, or its type URL; without it, all codes are listed."`
}

func (c *explainCmd) Run(w *world) error {
	if c.Code == "" {
		_, err := fmt.Fprintln(w.stdout, strings.Join(problems.Codes(), "\n"))
		return err
	}
	code := c.Code[strings.LastIndexByte(c.Code, '/')+1:]
	page, ok := problems.Page(code)
	if !ok {
		return failf(exitNotFound, "there is no problem %q%s; stet explain lists them all", code, spell.Hint(code, problems.Codes()))
	}
	_, err := fmt.Fprint(w.stdout, page)
	return err
}
