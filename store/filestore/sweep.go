package filestore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// clear empties tmp, and removes what the files in it are listed as. No other process has the store
// open.
func (s *Store) clear() error {
	if err := s.sweep(); err != nil {
		return err
	}
	names, err := s.names(tmpDir)
	for _, name := range names {
		err = errors.Join(err, s.root.RemoveAll(tmpDir+"/"+name))
	}
	return err
}

// sweep removes files whose writers have died, while others go on: a live writer holds the lock of
// its file.
func (s *Store) sweep() error {
	names, err := s.names(tmpDir)
	for _, name := range names {
		if path.Ext(name) == extension {
			err = errors.Join(err, s.bury(tmpDir+"/"+name))
		}
	}
	return err
}

// sweepEvery is how often Due sweeps. The process that died need not be one that starts again.
const sweepEvery = 10 * time.Minute

// sweepNow and then, at no cost otherwise. A file that cannot be removed does no harm.
func (s *Store) sweepNow(now time.Time) {
	turn := now.UnixNano() / int64(sweepEvery)
	if s.swept.Swap(turn) != turn {
		_ = s.sweep()
	}
}

// bury removes a file in tmp and its entry under due if its writer is dead.
func (s *Store) bury(temp string) error {
	if info, err := s.root.Lstat(temp); err != nil || !info.Mode().IsRegular() {
		return ignore(err, fs.ErrNotExist)
	}
	f, err := s.root.OpenFile(temp, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	defer func() { _ = release(f) }()
	if ok, err := exclusive.try(f); err != nil || !ok {
		return err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, s.remove(temp), none.wait(f)); err != nil {
		return err
	}
	r, err := decode(b)
	if err != nil { // it died while it wrote the file, before it listed it
		return nil
	}
	name := nameOf(r.ID)
	return s.tidy(&entry{name: name, version: r.Version, path: entryOf(&r.Head, name)})
}

// tidyNever removes what crashes left among the entries that never fall due, which Due does not
// visit.
func (s *Store) tidyNever() error {
	for e, err := range s.bucket(context.Background(), neverBucket, "") {
		if err == nil {
			_, _, err = s.meet(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
