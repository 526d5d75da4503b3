// Package inplace notices that a file which a program has open is no more the one that has its
// name. What is written to such a file is lost, or is somewhere else than people believe.
package inplace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stet-dev/stet"
)

// Files are files that are open, each with the name by which it is known. It is safe for concurrent
// use, except for Add.
type Files struct{ all []known }

type known struct {
	path string
	was  fs.FileInfo
	once bool // has one name only
}

// Add notes what has the name path now; once says that the file is to have no other name. It is an
// error if there is none.
func (f *Files) Add(path string, once bool) error {
	was, err := os.Stat(path)
	if err == nil {
		f.all = append(f.all, known{path, was, once})
	}
	return err
}

// Check returns [stet.ErrForeign] where a name is not that of its file any more.
func (f *Files) Check() error {
	for _, k := range f.all {
		now, err := os.Stat(k.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s is not there any more: it was moved or removed while it is open, so that what is written would be lost; "+
				"put it back, or restart without it", stet.ErrForeign, k.path)
		case err != nil:
			return err
		case !os.SameFile(k.was, now):
			return fmt.Errorf("%w: another one than the one that is open has the name %s: it was moved away, and another was put in its place; "+
				"put it back, or restart with the one that is there", stet.ErrForeign, k.path)
		case k.once && links(now) > 1:
			return fmt.Errorf("%w: %s has %d names (hard links): who opens it by another name does not see what is written by this one; "+
				"remove the other names, or copy the file", stet.ErrForeign, k.path, links(now))
		}
	}
	return nil
}
