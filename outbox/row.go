package outbox

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A row may be damaged: by a change by hand, by a disk, by a newer program. Then its message says
// so, and the other rows are read as usual. No error text contains what the row holds.

// column is a column of the table, and where its value goes in a message.
type column struct {
	name string
	into any // a pointer, or a function that reads text and reports whether it could
}

func (m *Stored) columns() []column {
	return []column{
		{"id", &m.ID}, {"version", &m.Version}, {"state", (*string)(&m.State)}, {"attempt", &m.Attempt},
		{"scope", (*string)(&m.Record.Scope)}, {"key", (*string)(&m.Record.Key)}, {"life", &m.Record.Life},
		{"topic", &m.Topic}, {"name", &m.Name}, {"order_key", &m.OrderKey},
		{"downstream_key", &m.DownstreamKey}, {"downstream_id", &m.DownstreamID}, {"payload", &m.Payload},
		{"meta", func(text string) bool {
			var meta map[string]string
			if json.Unmarshal([]byte(text), &meta) != nil {
				return false
			}
			m.Meta = meta
			return true
		}},
		{"key_honoured", &m.KeyHonoured},
		{"errors", func(text string) (whole bool) { m.Errors, whole = failures(text); return whole }},
		{"created_at", &m.CreatedAt}, {"updated_at", &m.UpdatedAt}, {"due_at", &m.DueAt},
	}
}

// columns are their names in a statement.
var columns = func() string {
	var names []string
	for _, c := range new(Stored).columns() {
		names = append(names, "`"+c.name+"`")
	}
	return strings.Join(names, ", ")
}()

// all reads messages, those that are damaged too.
func (s *statements) all(rows *sql.Rows, err error) (all []Stored, _ error) {
	err = each(rows, err, func(values []any) {
		var m Stored
		var bad []string
		for i, c := range m.columns() {
			if !s.assign(c.into, values[i]) {
				bad = append(bad, c.name)
			}
		}
		if m.Record.Life.Equal(time.UnixMicro(0)) {
			m.Record.Life = time.Time{}
		}
		if len(bad) > 0 {
			m.Damage = "cannot be read: " + strings.Join(bad, ", ")
		}
		all = append(all, m)
	})
	return all, err
}

// each reads rows with columns of any type.
func each(rows *sql.Rows, err error, visit func(values []any)) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, dest := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		visit(values)
	}
	return rows.Err()
}

// assign reports whether v is a value for the place.
func (s *statements) assign(place, v any) (ok bool) {
	if b, is := v.([]byte); is {
		if p, is := place.(*[]byte); is {
			*p = b
			return true
		}
		v = string(b)
	}
	text, isText := v.(string)
	switch p := place.(type) {
	case *[]byte:
		*p = []byte(text)
		return isText
	case *string:
		if *p = text; s.dialect == sqlstore.Postgres {
			var err error
			*p, err = sqltext.PostgresUnescape(text)
			isText = isText && err == nil
		}
		return isText
	case func(string) bool:
		return p(text) && isText
	case *int64:
		*p, ok = number(v)
	case *bool:
		var n int64
		n, ok = number(v)
		*p, ok = n == 1, ok && (n == 0 || n == 1)
	case *int:
		var n int64
		n, ok = number(v)
		*p = int(n)
	case *time.Time:
		var us int64
		us, ok = number(v)
		*p = time.UnixMicro(us).UTC()
	}
	return ok
}

// number reads a number, of which some drivers give the digits. It returns 0 for anything else.
func number(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case []byte:
		return number(string(v))
	case string:
		var err error
		if n, err = strconv.ParseInt(v, 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// failures reads what went wrong with a message, and reports whether it could read all of it.
func failures(stored string) (all []Failure, whole bool) {
	whole = true
	for l := range strings.Lines(stored) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		var f struct {
			Attempt int
			At      int64
			Error   string
		}
		if json.Unmarshal([]byte(l), &f) != nil {
			whole, f.Error = false, "this entry cannot be read"
		}
		all = append(all, Failure{f.Attempt, time.UnixMicro(f.At).UTC(), f.Error})
	}
	return all, whole
}
