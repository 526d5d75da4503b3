// Package names gives constants their names.
package names

import "fmt"

// Of returns the name of v. What has none is shown as its type, kind, and its number.
func Of[T ~uint8](kind string, names []string, v T) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}
