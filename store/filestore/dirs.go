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

// The name of a directory is lost with the power, and all that is in it, until the directory above is synced. Who finds a
// directory that another process has just made cannot see whether it did that. So a directory is only made in one whose own
// name is on the disk, and each Store syncs the directory above itself, once, before it puts anything in.

// knownDirs are directories whose names this Store has seen to the disk.
type knownDirs struct {
	mu   sync.Mutex
	dirs map[string]struct{}
}

// bucketGrace is how long an empty directory under due is left alone after its time. Within it a Store may rely on the
// name it saw to the disk; a directory that was removed and made again has to be synced again.
const bucketGrace = time.Hour

// has reports whether dir is known. Of a directory under due whose time is over, nothing is.
func (k *knownDirs) has(dir string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.dirs[dir]
	return ok && !past(dir, now)
}

func (k *knownDirs) add(dir string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for known := range k.dirs {
		if past(known, now) {
			delete(k.dirs, known)
		}
	}
	if k.dirs == nil {
		k.dirs = make(map[string]struct{})
	}
	k.dirs[dir] = struct{}{}
}

func (k *knownDirs) forget(dir string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.dirs, dir)
}

func past(dir string, now time.Time) bool {
	bucket, ok := strings.CutPrefix(dir, dueDir+"/")
	return ok && bucket < bucketOf(now)
}

// mkdir makes a directory of the store, durably. That it is there already is no error, and proves nothing.
func (s *Store) mkdir(dir string) error {
	now := instant(s.clock.Last())
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

// link gives the file at from another name, in a directory that is made if need be. [fs.ErrExist]: the name is taken. With
// any other error, too, nothing has happened.
func (s *Store) link(from, to string) (err error) {
	for range linkTries {
		if err := s.mkdir(path.Dir(to)); err != nil {
			return err
		}
		if err = s.root.Link(from, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.known.forget(path.Dir(to))
	}
	return err
}

// linkTries: somebody may just have removed the empty directory.
const linkTries = 3

func (s *Store) sync(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.fsync(f), f.Close())
}

// makeDir makes the store's own directory, and what is missing above it, from the top. dir is absolute.
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

// unsyncable reports whether err says that this directory is never synced by us. Then no Store has made anything in it, since
// that would have failed, too: it is /home, or a mount point in an image that is only read.
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
