package filestore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/stet-dev/stet"
)

// draft is a record's next file: complete, on the disk, and locked, but without the record's name.
// It is listed under due before it gets that name. A crash between the two steps leaves an entry
// too many, which is harmless, and never one too few, which would be a lease whose end goes
// unnoticed.
type draft struct {
	s     *Store
	f     *os.File
	temp  string // its first name
	entry string // its name under due
}

func (s *Store) draft(r *stet.Record, name string) (*draft, error) {
	b, err := encode(r)
	if err != nil {
		return nil, err
	}
	d := &draft{s: s, entry: entryOf(&r.Head, name)}
	if d.f, d.temp, err = s.temp(); err != nil {
		return nil, err
	}
	if _, err = d.f.Write(b); err == nil {
		err = d.enter()
	}
	if err == nil {
		err = s.fsync(d.f)
	}
	if err == nil {
		err = s.sync(path.Dir(d.entry))
	}
	if errors.Is(err, syscall.EFBIG) {
		err = fmt.Errorf("%w: %w", stet.ErrRefused, err)
	}
	if err != nil {
		return nil, errors.Join(err, d.discard(), release(d.f))
	}
	return d, nil
}

// temp creates a file in tmp and locks it. Before it is locked, another process may take it for the
// file of a dead writer and sweep it away.
func (s *Store) temp() (f *os.File, name string, err error) {
	for range tempTries {
		name = tmpDir + "/" + rand.Text() + extension
		if f, err = s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return nil, "", err
		}
		ok, err := exclusive.try(f)
		if err == nil && ok {
			err = s.still(name, f)
			ok = err == nil
		}
		if ok {
			return f, name, nil
		}
		if err := errors.Join(ignore(err, stet.ErrNotFound), s.remove(name), release(f)); err != nil {
			return nil, "", err
		}
	}
	return nil, "", errSwept
}

const tempTries = 64 // a sweeper is seldom there at all; one that does nothing else hits some of them

var errSwept = errors.New("each file made in " + tmpDir + " was swept away")

// enter lists the draft under due. The name may exist from a draft of the same write that failed
// and could not be removed.
func (d *draft) enter() error {
	err := d.s.link(d.temp, d.entry)
	if errors.Is(err, fs.ErrExist) {
		if err := d.s.remove(d.entry); err != nil {
			return err
		}
		err = d.s.link(d.temp, d.entry)
	}
	if errors.Is(err, fs.ErrExist) {
		return errBusy // ErrExist is Create's word for the record itself
	}
	return err
}

// discard removes the draft: nothing has happened.
func (d *draft) discard() error {
	return errors.Join(d.s.remove(d.entry), d.s.remove(d.temp))
}

// close releases the lock, so that the record may be read.
func (d *draft) close() { _ = release(d.f) } // synced before

// settle syncs the change of the record's name. If that fails, what the disk holds is unknown,
// while every reader would take the new name for a fact. Therefore the store stops (W28).
func (s *Store) settle(name string) error { return s.settleIn(path.Dir(pathOf(name))) }

func (s *Store) settleIn(dir string) error {
	err := s.sync(dir)
	if err != nil {
		err = fmt.Errorf("a directory was not synced, the store has to be opened again: %w", err)
		s.sick.CompareAndSwap(nil, &err)
	}
	return err
}

// forget removes the due entry of a head that no longer exists, unless the entry is also keep. An
// entry that stays is found by Due.
func (s *Store) forget(old *stet.Head, keep, name string) {
	if entry := entryOf(old, name); entry != keep {
		_ = s.remove(entry)
	}
}
