package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A directory's name, and with it everything in the directory, is lost in a power failure unless
// the parent directory was synced. A process that finds a directory which another process has just
// created cannot see whether that was done. So a directory is created only in a parent whose own
// name is on the disk, and each Store syncs the parent itself, once, before it puts a file into the
// directory.

// knownDirs are the directories whose names this Store has synced.
type knownDirs struct{ dirs sync.Map }

// bucketGrace is how long an empty directory under due is kept after its time. Until then a Store
// relies on having synced its name; a directory that was removed and created again has to be synced
// again.
const bucketGrace = time.Hour

// has reports whether dir is known. A directory under due whose time is over is never known.
func (k *knownDirs) has(dir string, now time.Time) bool {
	_, ok := k.dirs.Load(dir)
	return ok && !past(dir, now)
}

func (k *knownDirs) add(dir string, now time.Time) {
	for known := range k.dirs.Range {
		if past(known.(string), now) {
			k.dirs.Delete(known)
		}
	}
	k.dirs.Store(dir, struct{}{})
}

func past(dir string, now time.Time) bool {
	bucket, ok := strings.CutPrefix(dir, dueDir+"/")
	return ok && bucket < bucketOf(now)
}

// mkdir creates a directory of the store durably. It is no error if the directory exists; that does
// not prove that its name was synced.
func (s *Store) mkdir(dir string) error {
	now := instant(s.clock.Horizon())
	if s.known.has(dir, now) {
		return nil
	}
	if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.sync(path.Dir(dir)); err != nil {
		return err
	}
	s.known.add(dir, now)
	return nil
}

// link gives the file at from another name, and creates the directory of that name if needed. The
// error is [fs.ErrExist] if the name is taken. After any other error nothing has happened either.
func (s *Store) link(from, to string) (err error) {
	for range linkTries {
		if err := s.mkdir(path.Dir(to)); err != nil {
			return err
		}
		if err = s.root.Link(from, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.known.dirs.Delete(path.Dir(to))
	}
	return err
}

// linkTries is needed because another process may just have removed the empty directory.
const linkTries = 3

func (s *Store) sync(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.fsync(f), f.Close())
}

// makeDir creates the store's own directory, and the missing ones above it, from the top. dir is
// absolute.
func makeDir(dir string, fsync func(*os.File) error) error {
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case err == nil:
		if err := syncDir(filepath.Dir(real), fsync); !unsyncable(err) {
			return err
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	above := filepath.Dir(dir)
	if err := makeDir(above, fsync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(above, fsync)
}

// unsyncable reports whether err says that a process like this one can never sync the directory: it
// is /home, or a mount point in a read-only image. No Store has created anything in such a
// directory, because that would have failed, too.
func unsyncable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EROFS)
}

func syncDir(dir string, fsync func(*os.File) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(fsync(f), f.Close())
}
