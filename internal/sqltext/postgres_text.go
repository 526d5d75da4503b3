package sqltext

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet"
)

// postgresEscape writes any bytes as text that Postgres accepts: UTF-8 without NUL. Ordinary
// strings stay as they are; \ becomes \\, and bytes that cannot be text become \xHH. Different
// strings stay different.
func postgresEscape(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == 0 || r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + hex.EncodeToString([]byte{s[i]}))
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

var errEscape = errors.New("it is not as this program writes it")

// PostgresUnescape is the inverse of postgresEscape. It returns an error for text that
// postgresEscape does not write.
func PostgresUnescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for rest := s; rest != ""; {
		r, isRune, after, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return "", errEscape
		}
		if rest = after; isRune {
			b = utf8.AppendRune(b, r)
		} else {
			b = append(b, byte(r))
		}
	}
	if postgresEscape(string(b)) != s { // one string, one spelling
		return "", errEscape
	}
	return string(b), nil
}

// PostgresEncoder is how Postgres takes strings.
var PostgresEncoder Encoder = func(s string) any { return postgresEscape(s) }

// unescape undoes postgresEscape in what was scanned.
func unescape(texts ...*string) (err error) {
	for _, s := range texts {
		if *s, err = PostgresUnescape(*s); err != nil {
			return err
		}
	}
	return nil
}

// PostgresCreateArgs returns the arguments of [PostgresCreate].
func PostgresCreateArgs(h *stet.Head, b *stet.Body) ([]any, error) {
	args, err := postgresValues(h, b)
	return append(args, dueIn(h)), err
}

// PostgresReplaceArgs returns the arguments of one of the statements that replace. If b is nil,
// they are for a statement that leaves the body; if h has a note, for one that adds it to the
// history.
func PostgresReplaceArgs(prev stet.Version, h *stet.Head, b *stet.Body) ([]any, error) {
	args, err := postgresValues(h, b)
	s := Changed(h, 0)
	args = append(args, int64(prev), dueIn(h), s.Created, s.Ended)
	if h.Note != nil {
		args = PostgresEncoder.note(append(args, int64(h.Attempt)), h.Note, h.Tag)
	}
	return args, err
}

// PostgresDeleteArgs returns the arguments of [PostgresDelete].
func PostgresDeleteArgs(id stet.ID, prev stet.Version) []any {
	return append(PostgresEncoder.ID(nil, id), int64(prev))
}

func postgresValues(h *stet.Head, b *stet.Body) ([]any, error) {
	args, err := PostgresEncoder.Head(PostgresEncoder.ID(make([]any, 0, 40), h.ID), h)
	if err != nil {
		return nil, err
	}
	if b != nil {
		args = Body(args, h.ID, b)
	}
	return args, nil
}

func dueIn(h *stet.Head) any {
	if h.DueIn < 0 {
		return nil
	}
	return h.DueIn.Microseconds()
}
