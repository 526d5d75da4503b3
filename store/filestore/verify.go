package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/stet-dev/stet"
)

// maxFound is how many damages [Store.Verify] names.
const maxFound = 100

// Verify reads all that the store has: each record, and whether it is listed under due; each entry
// there, and whether its record exists; the history, and the changes that are pending. It returns a
// sentence for each damage, up to a hundred.
func (s *Store) Verify(ctx context.Context) (found []string, err error) {
	return work(ctx, s, "verify", "", func(ctx context.Context) (found []string, err error) {
		for _, verify := range []func(context.Context, func(string, ...any) bool) error{s.verifyRecords, s.verifyDue, s.verifyHistory} {
			err := verify(ctx, func(format string, args ...any) (more bool) {
				if len(found) < maxFound {
					found = append(found, fmt.Sprintf(format, args...))
				}
				return len(found) < maxFound
			})
			if err != nil || len(found) == maxFound {
				return found, err
			}
		}
		return found, nil
	})
}

// verifyRecords finds damaged records, those that are not listed under due, and what is no record.
func (s *Store) verifyRecords(ctx context.Context, found func(string, ...any) bool) error {
	if err := s.verifyNames(found); err != nil {
		return err
	}
	for name, err := range s.records(ctx, "", false) {
		if err != nil {
			return err
		}
		r, err := s.peek(name, math.MaxInt64)
		more := true
		switch {
		case errors.Is(err, stet.ErrCorrupt):
			more = found("%v", err)
		case errors.Is(err, stet.ErrNotFound), errors.Is(err, errBusy): // it is being written
		case err != nil:
			return err
		default:
			_, err := s.root.Lstat(entryOf(&r.Head, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err != nil && s.unchanged(name, r.Version) {
				more = found("%s is not listed under %s; stop all processes and remove that directory: it is made again", pathOf(name), dueDir)
			}
		}
		if !more {
			break
		}
	}
	return nil
}

// verifyNames finds files among the records whose names no key leads to: a record whose name was
// damaged is one of them.
func (s *Store) verifyNames(found func(string, ...any) bool) error {
	dirs, err := s.names(recordsDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if dir = recordsDir + "/" + dir; dir == heldDir {
			continue
		}
		files, err := s.names(dir)
		if err != nil {
			return err
		}
		for _, file := range files {
			name := file[:max(0, len(file)-len(extension))]
			if isName(name) && dir+"/"+file == pathOf(name) {
				continue
			}
			if !found("%s is not the file of any key: if it is a record, its name was changed, and its key is not known", dir+"/"+file) {
				return nil
			}
		}
	}
	return nil
}

// verifyDue finds entries without a record.
func (s *Store) verifyDue(ctx context.Context, found func(string, ...any) bool) error {
	for e, err := range s.entries(ctx, "", neverBucket) {
		if err != nil {
			return err
		}
		lost, err := s.lost(e)
		if err != nil {
			return err
		}
		if lost && !found("%s is listed under %s and is not there: its key is not known; it was removed, or a process was killed while it deleted it",
			pathOf(e.name), dueDir) {
			return nil
		}
	}
	return nil
}

// lost reports whether the record of an entry is not there, and nothing is being done about it: who
// makes or deletes it holds a lock.
func (s *Store) lost(e *entry) (bool, error) {
	if _, err := s.peek(e.name, 0); !errors.Is(err, stet.ErrNotFound) {
		return false, ignore(ignore(err, errBusy), stet.ErrCorrupt)
	}
	f, err := s.root.OpenFile(e.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, ignore(err, fs.ErrNotExist)
	}
	defer func() { _ = release(f) }()
	if ok, err := shared.try(f); err != nil || !ok {
		return false, err
	}
	if _, err := s.root.Lstat(e.path); err != nil {
		return false, ignore(err, fs.ErrNotExist)
	}
	_, err = s.peek(e.name, 0) // busy, too, where it is the very file that is locked here
	return errors.Is(err, stet.ErrNotFound), ignore(ignore(ignore(err, stet.ErrNotFound), errBusy), stet.ErrCorrupt)
}

// verifyHistory finds damaged lines of the history, and damaged announcements.
func (s *Store) verifyHistory(ctx context.Context, found func(string, ...any) bool) error {
	files, err := s.names(pendingDir)
	if err != nil {
		return err
	}
	for name, err := range each(ctx, files, "", false) {
		if err == nil {
			_, err = s.pending(name)
		}
		if errors.Is(err, stet.ErrCorrupt) && !found("%v", err) {
			return nil
		}
		if err = ignore(ignore(err, stet.ErrCorrupt), fs.ErrNotExist); err != nil {
			return err
		}
	}
	a, err := s.history()
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	defer a.close()
	for l, err := range backwards(a.lines(), a.length) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if _, err := parseChange(l.text); err != nil && !found("%v", errLine(a.begin+l.at, err)) {
			return nil
		}
	}
	return nil
}

// unchanged reports whether a record still has that version: one that was written meanwhile is
// listed elsewhere.
func (s *Store) unchanged(name string, version stet.Version) bool {
	r, err := s.peek(name, 0)
	return err == nil && r.Version == version
}
