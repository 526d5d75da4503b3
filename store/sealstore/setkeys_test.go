package sealstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sealstore"
)

// A key is rotated while the store is in use: the new one seals, the old one opens until it is
// dropped.
func TestSetKeys(t *testing.T) { // D01
	inner := memory(nil)
	s := seal(t, inner, sealstore.Config{Keys: oneKey()})
	old := create(t, s, secret())
	if err := s.SetKeys(rotated()); err != nil {
		t.Fatal(err)
	}
	r := secret()
	r.Key = "another"
	r = create(t, s, r)
	for _, id := range []stet.ID{old.ID, r.ID} {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id.Key, err)
		}
	}
	k := rotated()
	delete(k.Keys, "k1")
	if err := s.SetKeys(k); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), r.ID); err != nil {
		t.Errorf("what the new key sealed: %v", err)
	}
	if _, err := s.Get(t.Context(), old.ID); !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("what a key sealed that was dropped: %v", err)
	}
	for want, k := range map[string]sealstore.Keys{"names": hashedNames(), "there are none": {}, "other bytes": otherBytes(rotated())} {
		if err := s.SetKeys(k); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if _, err := s.Get(t.Context(), r.ID); err != nil {
		t.Errorf("after keys that cannot be used: %v", err)
	}
}
