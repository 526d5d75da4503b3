package main

import (
	"github.com/stet-dev/stet/cmd/internal/config"
)

type configCmds struct {
	Init   configInitCmd   `cmd:"" help:"Print a configuration with every setting at its default, explained."`
	Check  configCheckCmd  `cmd:"" help:"Find mistakes in a configuration file, without starting anything."`
	Test   configTestCmd   `cmd:"" help:"Show what a gateway would do with a request, and by which settings."`
	Show   configShowCmd   `cmd:"" help:"Print the configuration a gateway would run with."`
	Schema configSchemaCmd `cmd:"" help:"Print the JSON Schema of the file, for editors."`
}

type configInitCmd struct{}

func (configInitCmd) Run(w *world) error { return config.Init(w.stdout) }

type configSchemaCmd struct{}

func (configSchemaCmd) Run(w *world) error { return writeJSON(w.stdout, config.Schema()) }

type configShowCmd struct {
	settings
	Origin bool `help:"Show where each value comes from."`
}

func (c *configShowCmd) Run(w *world, conf *config.Config) error {
	return conf.Show(w.stdout, c.Origin)
}
