package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Limits of a group.
const (
	maxBatch      = 256     // writes in one transaction
	maxBatchBytes = 4 << 20 // of bodies in one transaction, unless a single one is larger
	lookAfter     = 25 * time.Millisecond
)

// op is one write. Its caller's goroutine prepares it.
type op struct {
	tablestore.Write
	args  []any        // of the statement, but for the instants and what comes after them; refers to no memory of the caller
	sum   uint32       // Create, Replace: of the packed head, which is the first argument
	seen  *stet.Record // Create: what its caller saw; Have is of the connection that writes, perhaps in this instant
	limit int          // reap
	gone  int          // reap: how many were removed
}

// Verbs beside those of package tablestore.
const (
	reap = tablestore.FirstOwn + iota
	appendTo
)

// pack prepares the arguments of a Create or a Replace.
func (o *op) pack(h *stet.Head, b *stet.Body) (err error) {
	if o.args, err = text.Head(make([]any, 0, 20), h); err != nil {
		return err
	}
	o.sum = sqltext.Unsealed(o.args[0].([]byte))
	if b != nil {
		o.args = sqltext.Body(o.args, h.ID, b)
	}
	return nil
}

// stamped returns the arguments with the instants, which are under the checksum from here on.
func (o *op) stamped(at *sqltext.Stamp) []any {
	at.Seal(o.args[0].([]byte), o.sum)
	return at.Args(o.args)
}

// Create stores r if its ID is free. A record that is there is found without waiting for those that
// write, so that a duplicate is answered at once even while another transaction holds the file.
func (s *sqlite) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	o, err := createOp(ctx, &r)
	if err == nil {
		err = s.create(o)
	}
	if err == stet.ErrExists && o.seen != nil {
		return *o.seen, err
	}
	return o.Created(&r, wrap("create", err))
}

// create looks first if the name is known, because then it is probably taken, and if the write has
// to wait for long, as it does while another process holds the file.
func (s *sqlite) create(o *op) (err error) {
	if s.known.has(o.Head.ID) {
		err = s.look(o)
	}
	if err == nil {
		err = s.queue.Do(o)
	}
	if err == nil || err == stet.ErrExists {
		s.known.add(o.Head.ID)
	}
	return err
}

func createOp(ctx context.Context, r *stet.Record) (o *op, err error) {
	o = newOp(ctx, tablestore.Create, &r.Head, &r.Body)
	return o, o.pack(&r.Head, &r.Body)
}

// look answers a duplicate beside the connection that writes.
func (s *sqlite) look(o *op) error {
	switch have, err := s.get(o.Ctx, o.Head.ID); {
	case err == nil:
		o.seen = &have
		return stet.ErrExists
	case !errors.Is(err, stet.ErrNotFound):
		return err
	}
	return nil
}

// Replace stores h, and b if it is not nil, if the record's Version is prev. What is kept of the
// instants is what the row says, not what h says.
func (s *sqlite) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	o, err := replaceOp(ctx, prev, &h, b)
	if err == nil {
		err = s.queue.Do(o)
	}
	return o.Replaced(wrap("replace", err))
}

func replaceOp(ctx context.Context, prev stet.Version, h *stet.Head, b *stet.Body) (o *op, err error) {
	o = newOp(ctx, tablestore.Replacing(b), h, b)
	o.Prev = prev
	return o, o.pack(h, b)
}

// Delete removes the record if its Version is prev.
func (s *sqlite) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return wrap("delete", s.queue.Do(deleteOp(ctx, id, prev)))
}

func deleteOp(ctx context.Context, id stet.ID, prev stet.Version) *op {
	o := newOp(ctx, tablestore.Remove, &stet.Head{ID: id}, nil)
	o.args = append(text.ID(make([]any, 0, 3), id), int64(prev))
	return o
}

func newOp(ctx context.Context, v tablestore.Verb, h *stet.Head, b *stet.Body) *op {
	return &op{Write: tablestore.Write{Call: groupcommit.Call{Ctx: ctx, Size: tablestore.Size(b)}, Verb: v, Head: *h}}
}
