package outbox

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A row may be damaged: by a hand in the table, by a disk, by a newer program. Then its message
// says so, and all others of the answer are read as ever. No text says what the row holds.

// text is a column that takes whatever comes, and remembers whether it was text.
type text struct {
	value string
	ok    bool
}

// Scan implements [sql.Scanner].
func (t *text) Scan(src any) error {
	switch v := src.(type) {
	case string:
		t.value, t.ok = v, true
	case []byte:
		t.value, t.ok = string(v), true
	default:
		t.value, t.ok = "", false
	}
	return nil
}

// blob is a column that takes whatever comes, and remembers whether it was bytes.
type blob struct {
	value []byte
	ok    bool
}

// Scan implements [sql.Scanner].
func (b *blob) Scan(src any) error {
	b.value, b.ok = nil, true
	switch v := src.(type) {
	case []byte:
		b.value = append([]byte{}, v...) // src is the driver's
	case string:
		b.value = []byte(v)
	default:
		b.ok = false
	}
	return nil
}

// number is a column that takes whatever comes, and remembers whether it was a number.
type number struct {
	value int64
	ok    bool
}

// Scan implements [sql.Scanner].
func (n *number) Scan(src any) error {
	n.value, n.ok = 0, false
	switch v := src.(type) {
	case int64:
		n.value, n.ok = v, true
	case []byte:
		n.parse(string(v))
	case string:
		n.parse(v)
	}
	return nil
}

func (n *number) parse(s string) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		n.value, n.ok = v, true
	}
}

// row is what the columns are read into.
type row struct {
	id, version, attempt, life, created, updated, due                    number
	state, scope, key, topic, name, order, downKey, downID, meta, errors text
	payload                                                              blob
}

// dest is where the columns go, in their order.
func (r *row) dest() []any {
	return []any{&r.id, &r.version, &r.state, &r.attempt, &r.scope, &r.key, &r.life, &r.topic, &r.name, &r.order,
		&r.downKey, &r.downID, &r.payload, &r.meta, &r.errors, &r.created, &r.updated, &r.due}
}

// all reads messages, those that are damaged too.
func (s *statements) all(rows *sql.Rows, err error) (all []Stored, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	r := row{}
	dest := r.dest()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		all = append(all, r.message(s.dialect))
	}
	return all, rows.Err()
}

// message is what can be read of the row.
func (r *row) message(d sqlstore.Dialect) (m Stored) {
	var bad []string
	str := func(name string, t *text) string {
		v, ok := t.value, t.ok
		if ok && d == sqlstore.Postgres {
			var err error
			v, err = sqltext.PostgresUnescape(v)
			ok = err == nil
		}
		if !ok {
			bad = append(bad, name)
		}
		return v
	}
	num := func(name string, n *number) int64 {
		if !n.ok {
			bad = append(bad, name)
		}
		return n.value
	}
	instant := func(name string, n *number) time.Time { return time.UnixMicro(num(name, n)).UTC() }

	m.ID, m.version, m.State = r.id.value, num("version", &r.version), State(r.state.value)
	m.Attempt = int(num("attempt", &r.attempt))
	m.Record.ID = stet.ID{Scope: stet.Scope(str("scope", &r.scope)), Key: stet.Key(str("key", &r.key))}
	if life := num("life", &r.life); life != 0 {
		m.Record.Life = time.UnixMicro(life).UTC()
	}
	m.Topic, m.Name, m.OrderKey = str("topic", &r.topic), str("name", &r.name), str("order_key", &r.order)
	m.DownstreamKey, m.DownstreamID = str("downstream_key", &r.downKey), str("downstream_id", &r.downID)
	m.CreatedAt, m.UpdatedAt = instant("created_at", &r.created), instant("updated_at", &r.updated)
	m.DueAt = instant("due_at", &r.due)
	if m.Payload = r.payload.value; !r.payload.ok {
		bad = append(bad, "payload")
	}
	if !r.meta.ok || json.Unmarshal([]byte(r.meta.value), &m.Meta) != nil {
		bad, m.Meta = append(bad, "meta"), nil
	}
	var whole bool
	if m.Errors, whole = failures(r.errors.value); !whole || !r.errors.ok {
		bad = append(bad, "errors")
	}
	if len(bad) > 0 {
		m.Damage = "cannot be read: " + strings.Join(bad, ", ")
	}
	return m
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
