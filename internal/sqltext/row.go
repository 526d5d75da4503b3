package sqltext

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// Row receives the columns of one record and decodes them. A record that it refuses is
// [stet.ErrCorrupt]. The error names the column but never shows its content, since a damaged record
// may hold a client's secrets.
type Row struct {
	// Unstamped means that the head's checksum leaves out the instants, because the database stamps
	// them by its own clock.
	Unstamped bool

	scope, key, state                                                   string
	version, schema, size, keepExpired                                  int64
	attempt, status                                                     int
	tag                                                                 sql.NullInt64
	holder, point, cause, route, method, path, traceID, downKey, downID string
	escalated                                                           bool
	fingerprint, attributes                                             []byte
	dueAt, completedAt                                                  sql.NullInt64
	updatedAt, createdAt, headSum                                       int64
	exchange, body                                                      []byte
}

// Dest returns the destinations of the columns of a head.
func (r *Row) Dest() []any {
	return append(make([]any, 0, 32), &r.scope, &r.key,
		&r.version, &r.schema, &r.tag, &r.state, &r.attempt, &r.status, &r.size, &r.holder, &r.point, &r.cause, &r.route, &r.method, &r.path,
		&r.traceID, &r.downKey, &r.downID, &r.escalated, &r.keepExpired, &r.fingerprint, &r.attributes,
		&r.dueAt, &r.updatedAt, &r.createdAt, &r.completedAt, &r.headSum)
}

// DestBody returns the destinations of all columns.
func (r *Row) DestBody() []any { return append(r.Dest(), &r.exchange, &r.body) }

// ID returns the name of the record, even if the rest cannot be read.
func (r *Row) ID() stet.ID { return stet.ID{Scope: stet.Scope(r.scope), Key: stet.Key(r.key)} }

func corrupt(what string) error { return fmt.Errorf("%w: %s", stet.ErrCorrupt, what) }

// Head decodes the head as it was at asOf, in microseconds since 1970.
func (r *Row) Head(asOf int64) (stet.Head, error) {
	var h stet.Head
	state, err := stet.ParseState(r.state)
	switch {
	case r.schema != Schema:
		return h, corrupt(fmt.Sprintf("its format is %d; this program knows %d", r.schema, Schema))
	case err != nil:
		return h, corrupt("state")
	case r.version <= 0:
		return h, corrupt("version")
	}
	if len(r.fingerprint) != len(h.Fingerprint.Sum) {
		return h, corrupt("fingerprint")
	}
	if codec.Head(string(r.attributes), &h) != nil {
		return stet.Head{}, corrupt("attributes")
	}
	h.ID, h.Version, h.State = r.ID(), stet.Version(r.version), state
	h.Attempt, h.Status, h.Size, h.Escalated, h.Rules.KeepExpired = r.attempt, r.status, r.size, r.escalated, time.Duration(r.keepExpired)
	h.Holder, h.Point, h.Cause, h.Route, h.Method, h.Path, h.TraceID = r.holder, r.point, r.cause, r.route, r.method, r.path, r.traceID
	h.DownstreamKey, h.DownstreamID = r.downKey, r.downID
	copy(h.Fingerprint.Sum[:], r.fingerprint)
	if r.tag.Valid {
		h.Tag = tag.Text(uint64(r.tag.Int64))
	}
	s := Stamp{Due: r.dueAt.Int64, Never: !r.dueAt.Valid, Updated: r.updatedAt, Created: r.createdAt, Ended: r.completedAt.Int64}
	under := s
	if r.Unstamped {
		under = Stamp{}
	}
	if int64(headSum(&h, &under)) != r.headSum {
		return stet.Head{}, corrupt("checksum of the head")
	}
	s.Apply(&h)
	h.AsOf = instant(asOf)
	return h, nil
}

// Record decodes head and body.
func (r *Row) Record(asOf int64) (stet.Record, error) {
	h, err := r.Head(asOf)
	if err != nil {
		return stet.Record{}, err
	}
	b, err := unpackExchange(h.ID, r.exchange, r.body)
	if err != nil {
		return stet.Record{}, corrupt("body")
	}
	return stet.Record{Head: h, Body: b}, nil
}
