//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filestore

import (
	"errors"
	"fmt"
	"os"
)

type lock int

const (
	shared lock = iota
	exclusive
	none
)

var errNoLocks = fmt.Errorf("files cannot be locked on this system: %w", errors.ErrUnsupported)

func ownerOf(os.FileInfo) (int, bool) { return 0, false }

func (lock) try(*os.File) (bool, error) { return false, errNoLocks }

func (lock) wait(*os.File) error { return errNoLocks }
