//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"cmp"
	"os"
	"syscall"
)

// ownerOf returns the id of a file's user.
func ownerOf(info os.FileInfo) (id int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// lock is a way to lock a file: shared by readers, or exclusive for a writer.
type lock int

const (
	shared    lock = syscall.LOCK_SH
	exclusive lock = syscall.LOCK_EX
	none      lock = syscall.LOCK_UN
)

// try locks f if no other file description holds a conflicting lock. The lock ends with f, or with
// the process.
func (l lock) try(f *os.File) (bool, error) {
	err := l.flock(f, syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// wait locks f as soon as that is possible.
func (l lock) wait(f *os.File) error { return l.flock(f, 0) }

func (l lock) flock(f *os.File, how int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		for {
			if failed = syscall.Flock(int(fd), int(l)|how); failed != syscall.EINTR {
				return
			}
		}
	})
	return cmp.Or(err, failed)
}
