package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stet-dev/stet"
)

// No name of the last ones is forgotten, and the others are.
func TestKnown(t *testing.T) {
	var k known
	id := func(n int) stet.ID { return stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(n))} }
	const names = 3*knownNames + knownNames/2
	for n := range names {
		k.add(id(n))
	}
	for n := names - knownNames; n < names; n++ {
		if !k.has(id(n)) {
			t.Fatalf("name %d of %d is forgotten", n, names)
		}
	}
	if k.has(id(0)) || k.has(id(names)) {
		t.Error("an old name, or a new one, is known")
	}
	if n := len(k.now) + len(k.before); n > 2*knownNames {
		t.Errorf("%d names are remembered", n)
	}
}

// codeError is an error as modernc.org/sqlite has it, and fieldError as go-sqlite3 does.
type codeError int

func (e codeError) Code() int     { return int(e) }
func (e codeError) Error() string { return "string or blob too big" }

type fieldError struct{ Code int }

func (fieldError) Error() string { return "string or blob too big" }

// What SQLite can never store is refused for good, and other errors are not (K08).
func TestTooBigForSQLite(t *testing.T) {
	for _, err := range []error{codeError(18), fieldError{18}, fmt.Errorf("exec: %w", codeError(18))} {
		if got := faultSQLite(err); !errors.Is(got, stet.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%T is told as %v", err, got)
		}
	}
	for _, err := range []error{codeError(5), fieldError{13}, errors.New("no such table")} {
		if errors.Is(faultSQLite(err), stet.ErrRefused) {
			t.Errorf("%T is refused for good", err)
		}
	}
}
