package dsn

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// need is what is said about an address of a store that only some builds have.
func need(s string) string {
	if !pebbleBuilt {
		return "pebble: is not in this build; install one that has it: go install -tags pebble github.com/stet-dev/stet/cmd/stet@latest"
	}
	return s
}

// A directory has one process; what it stores outlives it, and an operator's look makes nothing.
func TestPebble(t *testing.T) {
	if !pebbleBuilt {
		t.Skip("the build has no pebble: go test -tags pebble")
	}
	d, err := Parse("pebble:" + t.TempDir() + "/records")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), Look); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "a gateway makes it") {
		t.Errorf("a look at what is not there: %v", err)
	}
	id := stet.ID{Scope: "shop", Key: "order-1"}
	s, err := d.Open(t.Context(), Serve)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), stet.Record{Head: stet.Head{ID: id, State: stet.Running, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), Serve); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "one process at a time") {
		t.Errorf("a second process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = d.Open(t.Context(), Look); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), id); err != nil || r.State != stet.Running {
		t.Errorf("after its process: %v, %v", r.State, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
