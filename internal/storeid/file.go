package storeid

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stet-dev/stet"
)

// memory is what File holds.
type memory struct {
	ID   string `json:"id"`
	Mark int64  `json:"mark"`
	Step string `json:"step,omitempty"` // of the trail, that led to the mark
}

// read returns what File remembers, which is nothing where there is none.
func (g *Gate) read() (seen stet.Identity, err error) {
	if g.File == "" {
		return seen, nil
	}
	b, err := os.ReadFile(g.File)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	var m memory
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil && m.ID == "" {
		err = errors.New("it names no store")
	}
	if err != nil {
		return seen, fmt.Errorf("%s, in which the identity of the store is remembered, cannot be read; if the store is the one that it was, "+
			"remove that file: %w", g.File, err)
	}
	return stet.Identity{ID: m.ID, Mark: m.Mark, Trail: m.Step}, nil
}

// write remembers what is known, unless the file says as much already: another process may have
// written more. What fails is tried again with the next raise: the file then remembers less than
// was seen, and never more.
func (g *Gate) write(known *stet.Identity) {
	if g.File == "" || known.ID == "" {
		return
	}
	g.file.Lock()
	defer g.file.Unlock()
	if g.written.ID == known.ID && g.written.Mark >= known.Mark {
		return
	}
	if there, err := g.read(); err == nil && there.ID == known.ID && there.Mark >= known.Mark {
		g.written = there
		return
	}
	b, _ := json.Marshal(memory{known.ID, known.Mark, known.Trail[:min(stepSize, len(known.Trail))]})
	if replaceFile(g.File, append(b, '\n')) == nil {
		g.written = *known
	}
}

func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
