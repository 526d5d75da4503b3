// Package sqltext is what the SQL stores share: the columns of a record, how a record is written to
// and read from them, the conditions and pages of lists, and the statements and migrations of each
// kind of database.
package sqltext

import (
	"cmp"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/tag"
)

// Schema is the format of the rows written today. A row of another format is neither read nor
// overwritten.
const Schema = codec.Format

// The columns of a record, in the order of their arguments and destinations. A record is read as
// schema, identity, head, instants, body. It is written with the instants last, because the clock
// is read when everything else is ready; the schema is a part of the statements.
var (
	identity = []string{"scope", "key"}
	head     = []string{"head", "version", "tag", "state", "status", "flags", "route", "cause", "downstream_key", "downstream_id"}
	body     = []string{"body"}
	instants = []string{"due_at", "updated_at", "created_at", "completed_at"}
)

// headColumns are those that [Row] reads for a head, and recordColumns those of a table.
var (
	headColumns   = slices.Concat([]string{"schema"}, identity, head, instants)
	recordColumns = slices.Concat(headColumns, body)
)

// fitting are the columns that [Row] reads after those of a head for a record: the body, if it has
// no more bytes than most says in SQL, and how many it has. length is the database's function for
// that. from is what the names begin with.
func fitting(from, length, most string) string {
	return fmt.Sprintf("CASE WHEN %[2]s(%[1]sbody) <= %[3]s THEN %[1]sbody END AS body, %[2]s(%[1]sbody) AS size", from, length, most)
}

// smallBody is the most of a body that a Create reads of the record which is there already.
var smallBody = strconv.Itoa(stet.SmallBody)

// Bits of the column flags: what statements ask of the packed rest of a head.
const (
	flagEscalated = 1 << iota
	flagKeeps     // a result that is not removed when it is due: it refuses its key for longer
)

// Reapable is the condition that a result is removed when it is due.
var Reapable = fmt.Sprintf("flags & %d = 0", flagKeeps)

func flags(h *stet.Head) (f int64) {
	if h.Escalated {
		f |= flagEscalated
	}
	if h.Rules.KeepExpired != 0 {
		f |= flagKeeps
	}
	return f
}

// Encoder turns a string that may contain any bytes into an argument.
type Encoder func(string) any

// ID appends the arguments of the columns that name a record.
func (text Encoder) ID(args []any, id stet.ID) []any {
	return append(args, text(string(id.Scope)), text(string(id.Key)))
}

// Head appends the arguments of a head, without its name and its instants. The first one is the
// packed column: see [PackHead]. It returns an error for a head that cannot be stored.
func (text Encoder) Head(args []any, h *stet.Head) ([]any, error) {
	if err := codec.Check(h); err != nil {
		return nil, err
	}
	return append(args, PackHead(h), int64(h.Version), Tag(h.Tag), h.State.String(), int64(h.Status), flags(h), text(h.Route), text(h.Cause),
		text(h.DownstreamKey), text(h.DownstreamID)), nil
}

// Tag returns the bits of a tag, which is how it is stored. For a text that is not a tag it returns
// nil, which no record is found by.
func Tag(text string) any {
	if n, ok := tag.Parse(text); ok {
		return int64(n)
	}
	return nil
}

// Body appends the argument of a body. It refers to no memory of b.
func Body(args []any, id stet.ID, b *stet.Body) []any { return append(args, packBody(id, b)) }

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
		s.Ended = cmp.Or(codec.Micros(h.CompletedAt), s.Ended)
	}
	return s
}

// Args appends the arguments of the instants.
func (s *Stamp) Args(args []any) []any {
	return append(args, sql.NullInt64{Int64: s.Due, Valid: !s.Never}, s.Updated, s.Created, sql.NullInt64{Int64: s.Ended, Valid: s.Ended != 0})
}

// Seal puts the instants under the checksum of a packed head. The checksum without them is sum: see
// [Unsealed].
func (s *Stamp) Seal(packed []byte, sum uint32) { binary.BigEndian.PutUint32(packed, s.sum(sum)) }

// Unsealed returns the checksum of a packed head, as long as it leaves out the instants.
func Unsealed(packed []byte) uint32 { return binary.BigEndian.Uint32(packed) }

// Apply writes the instants into h as a store returns them.
func (s *Stamp) Apply(h *stet.Head) {
	h.DueIn, h.DueAt, h.CompletedAt = 0, time.Time{}, codec.Instant(s.Ended)
	if !s.Never {
		h.DueAt = instant(s.Due)
	}
	h.CreatedAt, h.UpdatedAt, h.AsOf = instant(s.Created), instant(s.Updated), instant(s.Updated)
}

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }
