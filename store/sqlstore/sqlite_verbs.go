package sqlstore

import (
	"errors"
	"time"

	"github.com/stet-dev/stet"
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
	args  []any  // of the statement, but for the instants and what comes after them; refers to no memory of the caller
	sum   uint32 // Create, Replace: of the packed head, which is the first argument
	limit int    // reap
	gone  int    // reap, forget: how many were removed or erased

	statement string // forget

	now stet.Identity // raise: what the store has then
}

func newOp() *op { return &op{} }

// Verbs beside those of package tablestore.
const (
	reap = tablestore.FirstOwn + iota
	appendTo
	raise
	forget
)

// pack prepares the arguments.
func (o *op) pack() (err error) {
	if o.Verb == tablestore.Remove {
		o.args = append(text.ID(make([]any, 0, 3), o.Head.ID), int64(o.Prev))
		return nil
	}
	if o.args, err = text.Head(make([]any, 0, 20), &o.Head); err != nil {
		return err
	}
	o.sum = sqltext.Unsealed(o.args[0].([]byte))
	if b := o.Written(); b != nil {
		o.args = sqltext.Body(o.args, o.Head.ID, b)
	}
	return nil
}

// stamped returns the arguments with the instants, which are under the checksum from here on.
func (o *op) stamped(at *sqltext.Stamp) []any {
	at.Seal(o.args[0].([]byte), o.sum)
	return at.Args(o.args)
}

// carry has o carried out among others. A duplicate is answered at once, even while another
// transaction holds the file: a Create looks first if the name is known, because then it is
// probably taken, and if it has to wait for long, as it does while another process holds the file.
func (s *sqlite) carry(o *op) (err error) {
	if err := s.Write(o.Ctx); err != nil {
		return err
	}
	if o.Verb != tablestore.Create {
		return s.queue.Do(o)
	}
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

// look answers a duplicate beside the connection that writes.
func (s *sqlite) look(o *op) error {
	switch have, err := s.get(o.Ctx, o.Head.ID); {
	case err == nil:
		o.Seen = &have
		return stet.ErrExists
	case !errors.Is(err, stet.ErrNotFound):
		return err
	}
	return nil
}
