package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/stet-dev/stet"
)

// A change with a note writes two files, and a crash may come between them. So the entry of the
// history is first written under pending and the record's name. Then the record gets its new file;
// then the entry is added to the history and removed from pending; then the writer gets its answer.
// All of that happens under the record's lock.
//
// The next process that takes the lock, or that reads the history, finds what a crash left pending,
// and sees by the record's version whether the change happened. If it did, the entry is added now.
// If it did not, it never will, and the entry is removed. So a change is never without its entry,
// and an entry at worst describes a write that happened without being acknowledged.
const pendingDir = "pending"

func pendingOf(name string) string { return pendingDir + "/" + name + extension }

// announce writes down what is about to happen to the record of that name.
func (s *Store) announce(c *change, name string) error {
	b, err := c.line()
	if err != nil {
		return err
	}
	f, temp, err := s.temp()
	if err != nil {
		return err
	}
	defer func() { _ = release(f) }() // synced before
	if _, err = f.Write(b); err == nil {
		err = s.fsync(f)
	}
	if err == nil {
		err = s.mkdir(pendingDir)
	}
	if err == nil {
		err = s.root.Rename(temp, pendingOf(name))
	}
	if err == nil {
		err = s.sync(pendingDir)
	}
	if err != nil {
		return errors.Join(err, s.remove(temp), s.remove(pendingOf(name)))
	}
	return nil
}

// conclude adds an announced change that has happened to the history.
func (s *Store) conclude(c *change, name string, once bool) error {
	if err := s.add(c, once); err != nil {
		return fmt.Errorf("the change happened and is pending: %w", err)
	}
	return s.withdraw(name)
}

// withdraw removes an announcement.
func (s *Store) withdraw(name string) error {
	if err := s.remove(pendingOf(name)); err != nil {
		return err
	}
	return s.sync(pendingDir)
}

// repair completes what a crash left pending for h, the record of that name, which is locked.
func (s *Store) repair(h *stet.Head, name string) error {
	c, err := s.pending(name)
	switch {
	case err != nil:
		return ignore(err, fs.ErrNotExist)
	case c.Version == uint64(h.Version):
		return s.conclude(c, name, true)
	}
	return s.withdraw(name)
}

// repairAll repairs the record of id, or every record where that is none, and waits for records
// that are being written. It skips a record that cannot be read, since no reader has seen it
// change. An announcement that cannot be read is [stet.ErrCorrupt]: its change may have happened.
func (s *Store) repairAll(ctx context.Context, id stet.ID) error {
	files, err := s.names(pendingDir)
	if err != nil {
		return err
	}
	if id != (stet.ID{}) {
		files = slices.DeleteFunc(files, func(file string) bool { return file != nameOf(id)+extension })
	}
	for name, err := range each(ctx, files, "", false) {
		if err == nil {
			err = s.repairOne(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) repairOne(ctx context.Context, name string) error {
	f, err := s.open(ctx, name, shared) // another process that repairs does the same, once
	if err != nil {
		return ignore(ignore(err, stet.ErrNotFound), stet.ErrCorrupt) // Delete repairs first: this record was taken away by hand
	}
	r, err := read(f, name, 0)
	switch {
	case err == nil:
		err = s.repair(&r.Head, name)
	case errors.Is(err, stet.ErrCorrupt):
		err = nil
	}
	return errors.Join(err, release(f))
}

// pending reads the announcement for a record. If there is none, the error is [fs.ErrNotExist].
func (s *Store) pending(name string) (*change, error) {
	at := pendingOf(name)
	f, err := s.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	switch err := s.still(at, f); {
	case errors.Is(err, stet.ErrNotFound): // another process has just repaired it
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	c, err := parseChange(b)
	if err == nil && nameOf(c.id()) != name {
		err = errors.New("it is the change of another key")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", stet.ErrCorrupt, at, err)
	}
	return c, nil
}
