package sqltext

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// Row receives the columns of one record and decodes them. What it refuses is [stet.ErrCorrupt], and the error says which
// column, never what was in it: a damaged record may hold a client's secrets.
type Row struct {
	// Unstamped: the head's checksum leaves out the instants, which the database stamps by its own clock.
	Unstamped bool

	scope, key                                         string
	version, schema                                    int64
	state                                              string
	attempt                                            int
	fingerprint                                        []byte
	recipe                                             string
	parts                                              []byte
	holder, point, cause, route, method, path, traceID string
	meta                                               []byte
	downKey, downID                                    string
	status                                             int
	size, kept                                         int64
	published, reconciled                              bool
	probes                                             int
	escalated                                          bool
	retain, keepExpired                                int64
	fromCreation                                       bool
	onLapse, took                                      int64
	noteWho, noteWhy, noteEvidence                     sql.NullString
	dueAt                                              sql.NullInt64
	updatedAt, createdAt                               int64
	completedAt                                        sql.NullInt64
	headSum                                            int64
	responseStatus                                     sql.NullInt64
	headers, trailers, body, request, progress         []byte
	bodySum                                            int64
}

// Dest returns what a row of the head's columns is scanned into.
func (r *Row) Dest() []any {
	return append(make([]any, 0, 48), &r.scope, &r.key,
		&r.version, &r.schema, &r.state, &r.attempt, &r.fingerprint, &r.recipe, &r.parts, &r.holder, &r.point, &r.cause,
		&r.route, &r.method, &r.path, &r.traceID, &r.meta, &r.downKey, &r.downID, &r.status, &r.size, &r.kept, &r.published, &r.reconciled, &r.probes, &r.escalated,
		&r.retain, &r.keepExpired, &r.fromCreation, &r.onLapse, &r.took, &r.noteWho, &r.noteWhy, &r.noteEvidence,
		&r.dueAt, &r.updatedAt, &r.createdAt, &r.completedAt, &r.headSum)
}

// DestBody returns what a row of all columns is scanned into.
func (r *Row) DestBody() []any {
	return append(r.Dest(), &r.responseStatus, &r.headers, &r.trailers, &r.body, &r.request, &r.progress, &r.bodySum)
}

// ID is the name of what was scanned, also where the rest cannot be read.
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
	case len(r.fingerprint) != len(h.Fingerprint.Sum) || len(r.parts) != 4*len(h.Fingerprint.Parts):
		return h, corrupt("fingerprint")
	case r.kept < 0 || r.kept > int64(stet.KeptStatus):
		return h, corrupt("kept")
	case r.onLapse < 0 || r.onLapse > int64(stet.LapseReexecute):
		return h, corrupt("on_lapse")
	}
	h = stet.Head{
		ID: stet.ID{Scope: stet.Scope(r.scope), Key: stet.Key(r.key)}, Version: stet.Version(r.version), State: state,
		Fingerprint: stet.Fingerprint{Recipe: r.recipe, Sum: [32]byte(r.fingerprint)},
		Attempt:     r.attempt, Point: r.point, Cause: r.cause, Holder: r.holder,
		Route: r.route, Method: r.method, Path: r.path, TraceID: r.traceID,
		DownstreamKey: r.downKey, DownstreamID: r.downID,
		Status: r.status, Size: r.size, Kept: stet.Kept(r.kept),
		Published: r.published, Reconciled: r.reconciled, Probes: r.probes, Escalated: r.escalated,
		Rules: stet.Rules{Retain: time.Duration(r.retain), KeepExpired: time.Duration(r.keepExpired),
			FromCreation: r.fromCreation, OnLapse: stet.LapseRule(r.onLapse)},
		Took: time.Duration(r.took),
	}
	for i := range h.Fingerprint.Parts {
		h.Fingerprint.Parts[i] = binary.BigEndian.Uint32(r.parts[4*i:])
	}
	if r.meta != nil {
		if h.Meta, err = codec.Meta(r.meta); err != nil {
			return h, corrupt("meta")
		}
	}
	if r.noteWho.Valid {
		h.Note = &stet.Note{Who: r.noteWho.String, Why: r.noteWhy.String, Evidence: r.noteEvidence.String}
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
	b := stet.Body{Request: r.request, Progress: r.progress}
	if r.responseStatus.Valid {
		b.Response = &stet.Response{Status: int(r.responseStatus.Int64), Body: r.body}
		if b.Response.Header, err = codec.Fields(r.headers); err != nil {
			return stet.Record{}, corrupt("headers")
		}
		if r.trailers != nil {
			if b.Response.Trailer, err = codec.Fields(r.trailers); err != nil {
				return stet.Record{}, corrupt("trailers")
			}
		}
	}
	if int64(bodySum(h.ID, b.Response, r.headers, r.trailers, r.request, r.progress)) != r.bodySum {
		return stet.Record{}, corrupt("checksum of the body")
	}
	return stet.Record{Head: h, Body: b}, nil
}
