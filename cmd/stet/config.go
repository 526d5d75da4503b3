package main

import (
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/config"
)

type configCmds struct {
	Init    configInitCmd    `cmd:"" help:"Print a configuration with every setting at its default, explained."`
	Check   configCheckCmd   `cmd:"" help:"Find mistakes in a configuration file, without starting anything."`
	Test    configTestCmd    `cmd:"" help:"Show what a gateway would do with a request, and by which settings."`
	Show    configShowCmd    `cmd:"" help:"Print the configuration a gateway would run with."`
	Running configRunningCmd `cmd:"" help:"Show the settings that a running gateway works with, where each comes from, and what waits for a restart."`
	Schema  configSchemaCmd  `cmd:"" help:"Print the JSON Schema of the file, for editors."`
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

type configRunningCmd struct {
	place
	printed
}

// check implements [checked].
func (c *configRunningCmd) check(*world) error { return settingList.check(&c.printed) }

func (c *configRunningCmd) Run(w *world, a *api) error {
	return unshown("settings", settingList.whole(w, a, "/api/v1/config", &c.printed, "it has no settings"))
}

var settingList = listOf[admin.Setting]("settings", 4, "path value origin pending unit doc", nil)
