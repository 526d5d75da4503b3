package config

import (
	"fmt"
	"strings"
)

// Origin is where a value comes from.
type Origin struct {
	Kind      originKind
	Name      string // of the flag, variable, file or profile
	Line, Col int    // in the file
}

// originKind tells the layers of a configuration apart, the weakest first.
type originKind uint8

// The layers.
const (
	fromDefault originKind = iota
	fromProfile
	FromFile
	FromEnvironment
	FromFlag
)

// String is what `config show --origin` prints.
func (o Origin) String() string {
	switch o.Kind {
	case fromDefault:
		return "default"
	case fromProfile:
		return "profile " + o.Name
	}
	return o.where()
}

// where is how an error names the place; a default has none.
func (o Origin) where() string {
	switch o.Kind {
	case FromFile:
		if o.Line == 0 {
			return o.Name
		}
		return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Col)
	case FromEnvironment:
		return "environment variable " + o.Name
	case FromFlag:
		return "flag " + o.Name
	case fromDefault, fromProfile:
	}
	return ""
}

// origins are kept by path. A value that was not given itself has the place of what it is in.
type origins map[string]Origin

func (o origins) of(path string) Origin {
	for {
		if at, ok := o[path]; ok {
			return at
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return Origin{}
		}
		path = path[:i]
	}
}

// given reports whether the value itself was set, by file, environment or flag.
func (o origins) given(path string) bool {
	return o[path].Kind >= FromFile
}
