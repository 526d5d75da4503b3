package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/digest"
	"github.com/stet-dev/stet/internal/rest"
)

// The directories of a store.
const (
	recordsDir = "records"
	dueDir     = "due"
	tmpDir     = "tmp"
)

// nameOf returns the name of the record of id.
func nameOf(id stet.ID) string {
	return hex.EncodeToString(digest.Of([]string{string(id.Scope), string(id.Key)}))
}

const nameLen = 2 * sha256.Size

const extension = ".json"

func pathOf(name string) string { return recordsDir + "/" + name[:2] + "/" + name + extension }

// errBusy is returned for a record that is being written.
var errBusy = errors.New("the record is being written")

// open opens the record's file and locks it. A writer holds the lock until its file is safely on
// the disk, and while it replaces a file.
func (s *Store) open(ctx context.Context, name string, l lock) (*os.File, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		f, err := s.tryOpen(name, l)
		if !errors.Is(err, errBusy) {
			return f, err
		}
		if !rest.For(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// tryOpen returns errBusy if the lock is taken, or if the file was replaced meanwhile.
func (s *Store) tryOpen(name string, l lock) (*os.File, error) {
	at := pathOf(name)
	f, err := s.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe planted there must not block
	if err != nil {
		return nil, s.missing(at, err)
	}
	ok, err := l.try(f)
	if err == nil && !ok {
		err = errBusy
	}
	if err == nil {
		err = s.still(at, f)
	}
	if err != nil {
		return nil, errors.Join(err, release(f))
	}
	return f, nil
}

// release ends the lock of a file, and closes it. Closing alone leaves the lock, for a moment, to a
// child process that is being started: until it runs its program, it has a copy of every open file.
func release(f *os.File) error { return errors.Join(none.wait(f), f.Close()) }

// missing returns why a record could not be opened. Something that is not a regular file is not a
// record, but it takes the key.
func (s *Store) missing(at string, err error) error {
	info, lerr := s.root.Lstat(at)
	switch {
	case errors.Is(lerr, fs.ErrNotExist):
		return stet.ErrNotFound
	case lerr != nil:
		return lerr
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no file", stet.ErrCorrupt, at)
	case errors.Is(err, fs.ErrNotExist): // it has just been made
		return errBusy
	}
	return err
}

// still checks that f is the file of that name and not another; symbolic links are not followed
// (case SE-02).
func (s *Store) still(at string, f *os.File) error {
	there, err := s.root.Lstat(at)
	if err != nil {
		return s.missing(at, err)
	}
	open, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !there.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no file", stet.ErrCorrupt, at)
	case !os.SameFile(there, open):
		return errBusy
	}
	return nil
}

// get reads the record of that name once it is safely on the disk. A body that takes more than most
// bytes of memory is left, here and in what follows.
func (s *Store) get(ctx context.Context, name string, most int64) (stet.Record, error) {
	f, err := s.open(ctx, name, shared)
	if err != nil {
		return stet.Record{}, err
	}
	return readAndClose(f, name, most)
}

// peek is get for a walk over many records: it does not wait for a record that is being written,
// and returns errBusy.
func (s *Store) peek(name string, most int64) (stet.Record, error) {
	f, err := s.tryOpen(name, shared)
	if err != nil {
		return stet.Record{}, err
	}
	return readAndClose(f, name, most)
}

// readAndClose releases the lock before it reads. A file that has its name never changes, and a
// reader must not delay a writer.
func readAndClose(f *os.File, name string, most int64) (stet.Record, error) {
	err := none.wait(f)
	var r stet.Record
	if err == nil {
		r, err = read(f, name, most)
	}
	return r, errors.Join(err, f.Close())
}

func read(f *os.File, name string, most int64) (stet.Record, error) {
	info, err := f.Stat()
	if err != nil {
		return stet.Record{}, err
	}
	var r stet.Record
	if size := info.Size(); size > sifted {
		r, err = sift(f, size, most)
	} else {
		b := make([]byte, size)
		if _, err := io.ReadFull(f, b); err != nil {
			return stet.Record{}, err
		}
		r, err = decode(b)
	}
	if _, failed := errors.AsType[*fs.PathError](err); failed {
		return stet.Record{}, err
	}
	r.Body = r.UpTo(most)
	if err == nil && nameOf(r.ID) != name {
		err = errors.New("it is the record of another key")
	}
	if err != nil {
		return stet.Record{}, fmt.Errorf("%w: %s: %w", stet.ErrCorrupt, pathOf(name), err)
	}
	return r, nil
}

// names lists a directory in order. A missing directory is empty.
func (s *Store) names(dir string) ([]string, error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, ignore(err, fs.ErrNotExist)
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// remove removes a name if it exists.
func (s *Store) remove(name string) error {
	return ignore(s.root.Remove(name), fs.ErrNotExist)
}

// The pauses between tries while another process has the file.
const (
	firstPause = 100 * time.Microsecond
	lastPause  = 5 * time.Millisecond
)
