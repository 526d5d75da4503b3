package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/localdisk"
	"github.com/stet-dev/stet/internal/storeid"
)

const (
	// storeFile says which store this is.
	storeFile = "store.json"
	// clockFile is empty. Its lock is held by who changes storeFile or moves the horizon; its time
	// of change is the horizon: see [Store.stamp].
	clockFile = "clock"
	// heldDir, among the records, has a file with the identity: whose records they are. If they are
	// taken away, or others are put in their place, it is not there, or another one is.
	heldDir  = recordsDir + "/store"
	heldFile = heldDir + "/id"
	// seenSuffix is what the file beside the directory, in which the identity is remembered, has
	// after the directory's name. Inside it would be moved with the directory.
	seenSuffix = ".seen"
)

// identity is what stands in storeFile.
type identity struct {
	ID       string    `json:"id"`
	Mark     int64     `json:"mark"`
	Trail    string    `json:"trail,omitempty"`
	Made     time.Time `json:"made"`
	Replaces []string  `json:"replaces,omitempty"`
}

// stored is how it stands there.
type stored struct {
	identity
	Held bool `json:"held,omitempty"` // the records say whose they are; those of older stores do not
}

// identify learns which store it is.
func (s *Store) identify() error {
	s.ids = storeid.Gate{Look: s.whose, Make: s.make, Raise: s.raise}
	if dir := s.root.Name(); localdisk.Has(dir) {
		s.ids.File = dir + seenSuffix
	}
	if err := s.ids.Open(context.Background()); err != nil || s.ids.Sight().Known.ID != "" {
		return err
	}
	have, err := s.stored() // nothing is remembered but here: a store whose records are gone
	s.ids.Know(stet.Identity(have.identity))
	return err
}

// stored reads storeFile. What is not there has no ID.
func (s *Store) stored() (have stored, err error) {
	b, err := s.root.ReadFile(storeFile)
	if err != nil {
		return have, ignore(err, fs.ErrNotExist)
	}
	if err := json.Unmarshal(b, &have); err != nil {
		return have, fmt.Errorf("%w: %s: %w", stet.ErrCorrupt, storeFile, err)
	}
	return have, nil
}

// whose reads the identity. A store whose records are gone, or are those of another one, has none.
func (s *Store) whose(context.Context) (now stet.Identity, err error) {
	if err := s.files.Check(); err != nil {
		return now, err
	}
	have, err := s.stored()
	if err != nil {
		return now, err
	}
	if have.Held {
		if ok, err := s.held(have.ID); err != nil || !ok {
			return now, err
		}
	}
	return stet.Identity(have.identity), nil
}

// held reports whether the records are those of the store with that ID.
func (s *Store) held(id string) (bool, error) {
	b, err := s.root.ReadFile(heldFile)
	return string(b) == id+"\n", ignore(err, fs.ErrNotExist)
}

// hold has the records say whose they are.
func (s *Store) hold(id string) error {
	if ok, err := s.held(id); err != nil || ok {
		return err
	}
	for _, dir := range []string{recordsDir, heldDir} { // which may have been taken away
		s.known.dirs.Delete(dir)
		if err := s.mkdir(dir); err != nil {
			return err
		}
	}
	return s.put(heldFile, []byte(id+"\n"))
}

// make gives the store its identity. The horizon of a store that is accepted begins anew, so that a
// clock that was years ahead once does not keep the time for years. A store whose records are gone
// is accepted, and not taken for new.
func (s *Store) make(_ context.Context, was, next stet.Identity) error {
	return s.alone(func() error {
		now, err := s.whose(context.Background())
		if err != nil || now.ID != was.ID {
			return err
		}
		have, err := s.stored()
		if err != nil || have.ID != "" && len(next.Replaces) == 0 {
			return err
		}
		if have.ID != "" {
			if err := s.setHorizon(instant(s.clock.Host())); err != nil {
				return err
			}
		}
		return s.writeIdentity(identity(next))
	})
}

// raise raises the mark.
func (s *Store) raise(_ context.Context, known stet.Identity, step string) (now stet.Identity, err error) {
	err = s.alone(func() error {
		if now, err = s.whose(context.Background()); err != nil || now.ID != known.ID || now.Mark < known.Mark {
			return err
		}
		now.Mark++
		now.Trail = (step + now.Trail)[:min(storeid.TrailSize, len(step)+len(now.Trail))]
		return s.writeIdentity(identity(now))
	})
	return now, err
}

// writeIdentity returns when it is on the disk: what is remembered of it elsewhere must not be
// ahead of it after a power failure.
func (s *Store) writeIdentity(next identity) error {
	b, err := json.Marshal(stored{identity: next, Held: true})
	if err == nil {
		err = s.hold(next.ID)
	}
	if err != nil {
		return err
	}
	return s.put(storeFile, append(b, '\n'))
}

// put gives a file its content, as a whole and durably.
func (s *Store) put(at string, b []byte) error {
	f, temp, err := s.temp()
	if err != nil {
		return err
	}
	defer func() { _ = release(f) }() // synced before
	if _, err = f.Write(b); err == nil {
		err = s.fsync(f)
	}
	if err == nil {
		err = s.root.Rename(temp, at)
	}
	if err != nil {
		return errors.Join(err, s.remove(temp))
	}
	return s.sync(path.Dir(at))
}

// alone calls f while no other process, and no other goroutine, is in it.
func (s *Store) alone(f func() error) error {
	if err := s.startClock(); err != nil {
		return err
	}
	lock, err := s.root.Open(clockFile)
	if err != nil {
		return err
	}
	defer func() { _ = release(lock) }()
	if err := exclusive.wait(lock); err != nil {
		return err
	}
	return f()
}

// startClock makes the clock's file where there is none. Before it has its name it has its time.
func (s *Store) startClock() error {
	if _, err := s.root.Lstat(clockFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, temp, err := s.temp()
	if err != nil {
		return err
	}
	now := instant(s.clock.Host())
	err = s.root.Chtimes(temp, now, now)
	if err == nil {
		err = ignore(s.root.Link(temp, clockFile), fs.ErrExist)
	}
	return errors.Join(err, s.remove(temp), release(f))
}

// horizonStep is how far the time may go beyond the horizon before a write moves the horizon, and
// so the most by which the time goes back if the host's clock does.
const horizonStep = time.Second

// stamp is the time of a write, which is not behind the horizon of all who have the store open. The
// horizon is not synced: without it leases last longer, and none ends early.
func (s *Store) stamp() (time.Time, error) {
	horizon, err := s.horizon()
	if err != nil {
		return time.Time{}, err
	}
	now := s.now()
	if now.Sub(horizon) > horizonStep {
		err = s.reach(now)
	}
	return now, err
}

// horizon reads the horizon.
func (s *Store) horizon() (time.Time, error) {
	info, err := s.root.Lstat(clockFile)
	if err != nil {
		return time.Time{}, ignore(err, fs.ErrNotExist)
	}
	s.clock.Know(info.ModTime().UnixMicro())
	return info.ModTime(), nil
}

// reach moves the horizon up to an instant, and never back.
func (s *Store) reach(to time.Time) error {
	if horizon, err := s.horizon(); err != nil || !horizon.Before(to) {
		return err
	}
	return s.alone(func() error {
		horizon, err := s.horizon()
		if err != nil || !horizon.Before(to) {
			return err
		}
		return s.setHorizon(to)
	})
}

func (s *Store) setHorizon(to time.Time) error {
	err := s.root.Chtimes(clockFile, to, to)
	if err == nil {
		s.clock.Know(to.UnixMicro())
	}
	return err
}

// writable proves that files can be made (S16), and that who has the store open can read them.
func (s *Store) writable() error {
	f, temp, err := s.temp()
	if err != nil {
		return err
	}
	return errors.Join(s.owned(f), s.remove(temp), release(f))
}

// mended says what to do about an error of who may not write.
func mended(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("it cannot be written; give this program's user the right to read and write in it, and mount its file system read-write: %w", err)
	}
	return err
}

// owned checks that a file of this process has the same owner as the store. Files are made for their
// owner alone: those of another user, such as root, the store's other processes could not read
// (Q16). The owner is looked at where the file system says it, which may have its own idea of users.
func (s *Store) owned(made *os.File) error {
	here, err := made.Stat()
	if err != nil {
		return err
	}
	there, err := s.root.Stat(recordsDir)
	if err != nil {
		return err
	}
	own, known := ownerOf(here)
	if owner, _ := ownerOf(there); known && owner != own {
		return fmt.Errorf("it belongs to %s, who could not read what %s writes in it; run this program as that user: sudo -u '#%d'",
			userOf(owner), userOf(own), owner)
	}
	return nil
}

func userOf(id int) string {
	u, err := user.LookupId(strconv.Itoa(id))
	if err != nil {
		return fmt.Sprintf("user %d", id)
	}
	return fmt.Sprintf("user %s (%d)", u.Username, id)
}

// write is [work] for a verb that writes.
func write[T any](ctx context.Context, s *Store, verb, name string, do func(ctx context.Context) (T, error)) (T, error) {
	return work(ctx, s, verb, name, func(ctx context.Context) (got T, err error) {
		if err := s.ids.Write(ctx); err != nil {
			return got, err
		}
		return do(ctx)
	})
}

// Identity implements [stet.Identified].
func (s *Store) Identity(ctx context.Context) (now, known stet.Identity, err error) {
	now, known, err = s.ids.Identity(ctx)
	return now, known, named("identity", err)
}

// Know implements [stet.Identified].
func (s *Store) Know(known stet.Identity) { s.ids.Know(known) }

// Accept implements [stet.Identified].
func (s *Store) Accept(ctx context.Context) (stet.Identity, error) {
	now, err := s.ids.Accept(ctx)
	return now, named("accept", err)
}

func named(verb string, err error) error {
	if err != nil {
		err = fmt.Errorf("filestore: %s: %w", verb, err)
	}
	return err
}
