// Package names gives constants their names, and reads them.
package names

import (
	"fmt"
	"slices"
	"strings"
)

// Of returns the name of v. What has none is shown as its type, kind, and its number.
func Of[T ~uint8](kind string, names []string, v T) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// Text returns the name of v for a text. The error says that it has none.
func Text[T ~uint8](kind string, names []string, v T) ([]byte, error) {
	if int(v) >= len(names) || names[v] == "" {
		return nil, fmt.Errorf("stet: %s is no %s", Of("value", names, v), kind)
	}
	return []byte(names[v]), nil
}

// Parse sets v to the constant of a name. The error lists the names.
func Parse[T ~uint8](kind string, names []string, text []byte, v *T) error {
	i := slices.Index(names, string(text))
	if i < 0 || names[i] == "" {
		return fmt.Errorf("stet: unknown %s %q: it is one of %s", kind, text, strings.Join(names, ", "))
	}
	*v = T(i)
	return nil
}
