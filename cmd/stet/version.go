package main

import (
	"runtime"
	"runtime/debug"
)

// version is set when a release is linked: -ldflags "-X main.version=v1.2.3".
var version = ""

// versionText is the release, or the state of the sources it was built from.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// versionLine is what stet version prints.
func versionLine() string { return "stet " + versionText() + " " + runtime.Version() }

type versionCmd struct{}

func (versionCmd) Run(w *world) error {
	return w.printf("%s\n", versionLine())
}
