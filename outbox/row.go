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

// A row may be damaged: by a change by hand, by a disk, by a newer program. Then its message says
// so, and the other rows are read as usual. No error text contains what the row holds.

// cell is a column of text or of a number. It takes whatever comes.
type cell struct{ src any }

// Scan implements [sql.Scanner].
func (c *cell) Scan(src any) error {
	if b, ok := src.([]byte); ok {
		src = string(b) // b is the driver's
	}
	c.src = src
	return nil
}

// text reports false if the column is not text.
func (c *cell) text() (s string, ok bool) {
	s, ok = c.src.(string)
	return s, ok
}

// number reports false, with 0, if the column is not a number.
func (c *cell) number() (n int64, ok bool) {
	if s, ok := c.src.(string); ok {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, false
		}
		return n, true
	}
	n, ok = c.src.(int64)
	return n, ok
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

// row is what the columns are read into.
type row struct {
	id, version, attempt, life, created, updated, due                    cell
	state, scope, key, topic, name, order, downKey, downID, meta, errors cell
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
	str := func(name string, c *cell) string {
		v, ok := c.text()
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
	num := func(name string, c *cell) int64 {
		n, ok := c.number()
		if !ok {
			bad = append(bad, name)
		}
		return n
	}
	instant := func(name string, c *cell) time.Time { return time.UnixMicro(num(name, c)).UTC() }

	m.ID, _ = r.id.number()
	state, _ := r.state.text()
	m.version, m.State = num("version", &r.version), State(state)
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
	if meta, ok := r.meta.text(); !ok || json.Unmarshal([]byte(meta), &m.Meta) != nil {
		bad, m.Meta = append(bad, "meta"), nil
	}
	errors, ok := r.errors.text()
	var whole bool
	if m.Errors, whole = failures(errors); !whole || !ok {
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
