package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet/cmd/internal/config"
)

// reloads acts on SIGHUP until ctx ends.
func (a *app) reloads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.reload:
			a.reloadOnce()
			a.watch.soon()
		}
	}
}

// reloadOnce puts a new configuration in force, whole or not at all, and says what changed. A bad
// file changes nothing.
func (a *app) reloadOnce() {
	next, late, err := a.next()
	if err == nil {
		err = a.change(next, late)
	}
	if err != nil {
		a.always.Error("the new configuration is not used; the old one stays", "error", err.Error())
		return
	}
	if len(late) > 0 {
		a.always.Warn("these settings changed and take effect at the next start", "settings", paths(late))
	}
	a.always.Info("the new configuration is in force")
}

// next reads the configuration. What takes a restart is as it was at the start, and late names it
// where it should be something else.
func (a *app) next() (next *config.Config, late []config.Change, err error) {
	if next, err = a.again(); err != nil {
		return nil, nil, err
	}
	if next.Upstream == "" {
		return nil, nil, errors.New("there is no upstream any more")
	}
	next.Stamp()
	for _, c := range config.Diff(a.started, next) {
		if c.Restart != "" {
			late = append(late, c)
		}
	}
	if err := next.Hold(a.started); err != nil {
		return nil, nil, fmt.Errorf("beside what takes a restart (%s): %w", paths(late), err)
	}
	if err := fits(next, a.store); err != nil {
		return nil, nil, err
	}
	next.Stamp()
	return next, late, nil
}

// paths names the settings that changed.
func paths(changes []config.Change) string {
	return strings.Join(each(changes, func(c *config.Change) string { return c.Path }), ", ")
}

// change puts next in force, beside which late waits for the next start.
func (a *app) change(next *config.Config, late []config.Change) error {
	if err := a.limits.Set(next.LimitsConfig()); err != nil { // what is made with them looks at them
		return err
	}
	p, err := a.make(next)
	if err == nil {
		err = a.rekey(p.keys)
	}
	if err != nil {
		return errors.Join(err, a.limits.Set(a.conf.LimitsConfig()))
	}
	changes := config.Diff(a.conf, next)
	a.waiting = late
	a.install(p)
	for _, c := range changes {
		if c.Restart == "" {
			a.always.Info("a setting changed", "setting", c.Path, "was", c.Was, "is", c.Is)
		}
	}
	return nil
}
