// Package sqltext is what the SQL stores share: the columns of a record, how a record is written to
// and read from them, the conditions and pages of lists, and the statements and migrations of each
// kind of database.
package sqltext

import (
	"bytes"
	"database/sql"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// Schema is the format of the rows written today. A row of another format is neither read nor
// overwritten.
const Schema = codec.Format

// The columns of a record, in the order of their arguments and destinations. A record is read as
// identity, head, instants, body. It is written with the instants last, because the clock is read
// when everything else is ready.
var (
	identity = []string{"scope", "key"}
	head     = []string{"version", "schema", "tag", "state", "attempt", "status", "size", "holder", "point", "cause", "route", "method", "path",
		"trace_id", "downstream_key", "downstream_id", "escalated", "keep_expired_ns", "fingerprint", "attributes"}
	instants = []string{"due_at", "updated_at", "created_at", "completed_at", "head_sum"}
	body     = []string{"exchange", "body"}
)

// Encoder turns a string that may contain any bytes into an argument.
type Encoder func(string) any

// ID appends the arguments of the columns that name a record.
func (text Encoder) ID(args []any, id stet.ID) []any {
	return append(args, text(string(id.Scope)), text(string(id.Key)))
}

// Head appends the arguments of a head, without its name and its instants. It returns an error for
// a head that cannot be stored.
func (text Encoder) Head(args []any, h *stet.Head) ([]any, error) {
	if err := codec.Check(h); err != nil {
		return nil, err
	}
	return append(args, int64(h.Version), Schema, Tag(h.Tag), h.State.String(), h.Attempt, h.Status, h.Size, text(h.Holder), text(h.Point), text(h.Cause),
		text(h.Route), text(h.Method), text(h.Path), text(h.TraceID), text(h.DownstreamKey), text(h.DownstreamID), h.Escalated,
		int64(h.Rules.KeepExpired), bytes.Clone(h.Fingerprint.Sum[:]), packAttributes(h)), nil
}

// Tag returns the bits of a tag, which is how it is stored. For a text that is not a tag it returns
// nil, which no record is found by.
func Tag(text string) any {
	if n, ok := tag.Parse(text); ok {
		return int64(n)
	}
	return nil
}

// Body appends the arguments of a body.
func (text Encoder) Body(args []any, id stet.ID, b *stet.Body) []any {
	var body []byte
	if b.Response != nil {
		body = b.Response.Body
	}
	return append(args, packExchange(id, b), orNull(body))
}

func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Stamp holds the instants of a record, in microseconds since 1970, UTC. [stet.Head] says what they
// mean.
type Stamp struct {
	Due, Updated, Created, Ended int64
	Never                        bool // no Due
}

// Born returns the stamp of a record that is created at the instant now.
func Born(h *stet.Head, now int64) Stamp {
	s := Stamp{Updated: now, Created: now, Never: h.DueIn < 0}
	if !s.Never {
		s.Due = now + h.DueIn.Microseconds()
	}
	if h.State == stet.Completed {
		s.Ended = now
	}
	return s
}

// Changed returns the stamp of a record that h replaces at the instant now. Instants stamped before
// are kept, unless h begins a new life. The writer knows the version that it replaces, so the
// instants in h are those that were stamped.
func Changed(h *stet.Head, now int64) Stamp {
	s := Born(h, now)
	if !h.CreatedAt.IsZero() {
		s.Created = h.CreatedAt.UnixMicro()
		if !h.CompletedAt.IsZero() {
			s.Ended = h.CompletedAt.UnixMicro()
		}
	}
	return s
}

// Args appends the arguments of the instants, and of the checksum that covers them and h.
func (s *Stamp) Args(args []any, h *stet.Head) []any {
	return append(args, sql.NullInt64{Int64: s.Due, Valid: !s.Never}, s.Updated, s.Created,
		sql.NullInt64{Int64: s.Ended, Valid: s.Ended != 0}, int64(headSum(h, s)))
}

// Apply writes the instants into h as a store returns them.
func (s *Stamp) Apply(h *stet.Head) {
	h.DueIn = 0
	h.DueAt, h.CompletedAt = time.Time{}, time.Time{}
	if !s.Never {
		h.DueAt = instant(s.Due)
	}
	if s.Ended != 0 {
		h.CompletedAt = instant(s.Ended)
	}
	h.CreatedAt, h.UpdatedAt, h.AsOf = instant(s.Created), instant(s.Updated), instant(s.Updated)
}

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }
