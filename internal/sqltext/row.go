package sqltext

import (
	"database/sql"
	"encoding/binary"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// Row receives the columns of one record and decodes them. A record that it refuses is
// [stet.ErrCorrupt]. The error names the column but never shows its content, since a damaged record
// may hold a client's secrets.
type Row struct {
	kind kind

	schema                                           int64
	scope, key, state, route, cause, downKey, downID string
	version, status, flags                           int64
	tag, dueAt, completedAt                          sql.NullInt64
	updatedAt, createdAt                             int64
	head, body                                       []byte
	size                                             int64 // of body, also where that is left
}

// Dest returns the destinations of the columns of a head.
func (r *Row) Dest() []any {
	return append(make([]any, 0, 20), &r.schema, &r.scope, &r.key,
		&r.head, &r.version, &r.tag, &r.state, &r.status, &r.flags, &r.route, &r.cause, &r.downKey, &r.downID,
		&r.dueAt, &r.updatedAt, &r.createdAt, &r.completedAt)
}

// DestBody returns the destinations of the columns of a record.
func (r *Row) DestBody() []any { return append(r.Dest(), &r.body, &r.size) }

// ID returns the name of the record, even if the rest cannot be read.
func (r *Row) ID() stet.ID { return stet.ID{Scope: stet.Scope(r.scope), Key: stet.Key(r.key)} }

// Tag returns what people call the record by, even if the rest cannot be read.
func (r *Row) Tag() string {
	if !r.tag.Valid {
		return "a record without an id"
	}
	return tag.Text(uint64(r.tag.Int64))
}

func corrupt(what string) error { return fmt.Errorf("%w: %s", stet.ErrCorrupt, what) }

// Head decodes the head as it was at asOf, in microseconds since 1970. A row is decoded once.
func (r *Row) Head(asOf int64) (h stet.Head, err error) {
	if r.kind == postgres {
		if err := unescape(&r.scope, &r.key, &r.route, &r.cause, &r.downKey, &r.downID); err != nil {
			return h, corrupt("text: " + err.Error())
		}
	}
	state, err := stet.ParseState(r.state)
	switch {
	case r.schema != Schema:
		return h, corrupt(fmt.Sprintf("its format is %d; this program knows %d", r.schema, Schema))
	case err != nil:
		return h, corrupt("state")
	case r.version <= 0:
		return h, corrupt("version")
	case len(r.head) < sumSize:
		return h, corrupt("head")
	}
	columns := stet.Head{ID: r.ID(), Version: stet.Version(r.version), State: state, Status: int(r.status), Route: r.route, Cause: r.cause,
		DownstreamKey: r.downKey, DownstreamID: r.downID}
	if r.tag.Valid {
		columns.Tag = tag.Text(uint64(r.tag.Int64))
	}
	s := Stamp{Due: r.dueAt.Int64, Never: !r.dueAt.Valid, Updated: r.updatedAt, Created: r.createdAt, Ended: r.completedAt.Int64}
	sum := headSum(r.head[sumSize:], &columns)
	if r.kind == sqlite { // the others stamp by their own clocks: their checksums leave out the instants
		sum = s.sum(sum)
	}
	if sum != binary.BigEndian.Uint32(r.head) {
		return h, corrupt("checksum of the head")
	}
	h = columns
	if codec.Head(string(r.head[sumSize:]), &h) != nil || flags(&h) != r.flags {
		return stet.Head{}, corrupt("head")
	}
	s.Apply(&h)
	h.AsOf = instant(asOf)
	return h, nil
}

// Record decodes head and body. A body that is too large to be read is left.
func (r *Row) Record(asOf int64) (stet.Record, error) {
	h, err := r.Head(asOf)
	if err != nil {
		return stet.Record{}, err
	}
	if r.body == nil && r.size > 0 {
		return stet.Record{Head: h, Body: stet.Body{Left: r.size}}, nil
	}
	b, ok := unpackBody(h.ID, r.body)
	if !ok {
		return stet.Record{}, corrupt("body")
	}
	return stet.Record{Head: h, Body: b}, nil
}
