package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong with a configuration, and what to do about it.
type Error struct {
	Where string // file:line:col, or the flag or environment variable
	Path  string // of the setting, such as policy.key.min_len; may be empty
	Text  string

	line, col int
}

func (e *Error) Error() string {
	parts := slices.DeleteFunc([]string{e.Where, e.Path, e.Text}, func(part string) bool { return part == "" })
	return strings.Join(parts, ": ")
}

// Errors are all that is wrong, in the order of the file.
type Errors []*Error

func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns them in the order of the file, or nil if there are none.
func (es Errors) Err() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.col, b.col))
	})
	return es
}

func (es *Errors) add(at Origin, path, format string, args ...any) {
	*es = append(*es, &Error{Where: at.where(), Path: path, Text: fmt.Sprintf(format, args...), line: at.Line, col: at.Col})
}

// Fault is something wrong with a setting that only its use shows, such as a file that is not
// there.
func (c *Config) Fault(path, format string, args ...any) *Error {
	at := c.given.of(path)
	if at == (Origin{}) && c.name != "" {
		at = Origin{Kind: FromFile, Name: c.name}
	}
	var es Errors
	es.add(at, path, format, args...)
	return es[0]
}
