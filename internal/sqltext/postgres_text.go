package sqltext

import (
	"encoding/hex"
	"errors"
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
// PostgresEscape does not write.
func PostgresUnescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		switch {
		case strings.HasPrefix(s[i:], `\\`):
			b = append(b, '\\')
			i++
		case strings.HasPrefix(s[i:], `\x`) && i+4 <= len(s):
			c, err := hex.DecodeString(s[i+2 : i+4])
			if err != nil {
				return "", errEscape
			}
			b = append(b, c...)
			i += 3
		default:
			return "", errEscape
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
func (r *Row) unescape() error {
	for _, s := range []*string{&r.scope, &r.key, &r.route, &r.cause, &r.downKey, &r.downID} {
		var err error
		if *s, err = PostgresUnescape(*s); err != nil {
			return corrupt("text: " + err.Error())
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
