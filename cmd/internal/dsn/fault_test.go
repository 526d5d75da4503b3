//go:build stetfault

package dsn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

func TestFaultSocket(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "s")
	t.Setenv(faultSocket, path)
	d, err := Parse("fault+memory:")
	if err != nil || !d.Faulty || d.String() != "fault+memory:" {
		t.Fatalf("%+v, %v", d, err)
	}
	s, err := d.Open(t.Context(), Serve)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	ask := func(line, want string) {
		t.Helper()
		if _, err := fmt.Fprintln(conn, line); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); err != nil || !strings.Contains(got, want) {
			t.Fatalf("%s: %q, %v, want %s", line, got, err, want)
		}
	}
	id := stet.ID{Scope: `a "b"`, Key: "k"}
	get := func() error { _, err := s.Get(context.Background(), id); return err }
	r, err := s.Create(t.Context(), stet.Record{Head: stet.Head{ID: id, Version: 1, State: stet.Running, DueIn: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	ask("down", `{"ok":true}`)
	if !errors.Is(get(), faulty.ErrFault) {
		t.Error("down: the store answers")
	}
	ask("up", `{"ok":true}`)
	ask("advance 90s", `{"ok":true}`)
	if now, err := s.Get(t.Context(), id); err != nil || now.AsOf.Sub(r.CreatedAt) < 90*time.Second || !now.Over() {
		t.Errorf("after 90 s the record is of %s, %v", now.AsOf.Sub(r.CreatedAt), err)
	}
	ask(`corrupt "a \"b\"" "k"`, `{"ok":true}`)
	if !errors.Is(get(), stet.ErrCorrupt) {
		t.Error("corrupt: the record is read")
	}
	for _, line := range []string{"slow 0s", "fail-complete true", "fail-complete false", "lose-replies 3", "lose-replies 0"} {
		ask(line, `{"ok":true}`)
	}
	for _, line := range []string{"", "dwon", "slow", "slow -1s", "advance yesterday", "fail-complete perhaps", "lose-replies -1", "corrupt a b"} {
		ask(line, `{"error":"`)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection outlives the store")
	}
	_ = conn.Close()
}

func TestFaultsNeedASocket(t *testing.T) {
	t.Setenv(faultSocket, "")
	d, err := Parse("fault+memory:")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), Serve); err == nil || !strings.Contains(err.Error(), faultSocket) {
		t.Errorf("%v", err)
	}
}
