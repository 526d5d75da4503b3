package stethttp

import (
	"maps"
	"slices"

	"github.com/stet-dev/stet/internal/reply"
)

// ProblemMediaType is what problem documents are sent as.
const ProblemMediaType = reply.Problem

// Codes returns every code there is.
func Codes() []Code { return slices.Collect(maps.Keys(kinds)) }

// Result returns what a request that gets a code counts as.
func Result(c Code) string { return kinds[c].result }
