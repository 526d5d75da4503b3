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
	s := e.Text
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	if e.Where != "" {
		s = e.Where + ": " + s
	}
	return s
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

// Unwrap returns the single errors.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// err returns nil if there are none.
func (es Errors) err() error {
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
