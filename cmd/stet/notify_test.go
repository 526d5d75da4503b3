package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// systemd hears when the gateway serves, and when it has begun to end.
func TestSystemdIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	socket := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	heard := func() string {
		b := make([]byte, 100)
		_ = c.SetReadDeadline(time.Now().Add(patience))
		n, _, err := c.ReadFromUnix(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	g := serve(t, "--upstream", creating(t), "--store", "memory:")
	if got := heard(); got != "READY=1" {
		t.Errorf("at its start: %q", got)
	}
	g.stop()
	if got := heard(); got != "STOPPING=1" {
		t.Errorf("at its end: %q", got)
	}
	if status := <-g.ended; status != exitFine {
		t.Errorf("%d", status)
	}
}

// A gateway whose service manager is gone serves all the same.
func TestNobodyIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	serve(t, "--upstream", creating(t), "--store", "memory:")
}

// What the unit starts is a command line of stet.
func TestTheUnitStartsAGateway(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/stet.service")
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(unit), "\nExecStart=/usr/bin/stet ")
	command, _, _ = strings.Cut(command, "\n")
	t.Chdir(t.TempDir())
	parser, err := newParser(&world{stdout: os.Stderr, stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if k, err := parser.Parse(strings.Fields(command)); err != nil || k.Command() != "gateway" {
		t.Errorf("%q: %v", command, err)
	}
}
