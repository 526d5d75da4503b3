package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the demo prints is true: each line that begins with "$ curl" shows what the line below it
// promises.
func TestDemoKeepsItsPromises(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	demo := startDemo(t, "--keep", dir)
	if len(demo.steps) < 6 {
		t.Fatalf("the demo shows %d things:\n%s", len(demo.steps), demo.text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var bodies []string
	for _, s := range demo.steps {
		out, err := exec.CommandContext(ctx, "sh", "-c", s.command).Output()
		if err != nil {
			t.Fatalf("%s: %v", s.command, err)
		}
		for _, p := range s.promises {
			if !strings.Contains(string(out), p) {
				t.Errorf("%s\npromised %s, and shows\n%s", s.command, p, out)
			}
		}
		_, body, _ := strings.Cut(string(out), "\r\n\r\n")
		bodies = append(bodies, body)
	}
	if bodies[0] != bodies[1] || bodies[0] == "" {
		t.Errorf("the replay is %q, the first answer was %q", bodies[1], bodies[0])
	}
	demo.end(t)
	if _, err := os.Stat(filepath.Join(dir, "stet.db")); err != nil {
		t.Errorf("the records were not kept: %v", err)
	}
}

// Without --keep nothing is left behind.
func TestDemoCleansUp(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	startDemo(t).end(t)
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// runningDemo is stet demo in a process of its own, past its last start-up line.
type runningDemo struct {
	cmd   *exec.Cmd
	text  string
	steps []step
}

func startDemo(t *testing.T, args ...string) *runningDemo {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &runningDemo{cmd: &exec.Cmd{Path: self, Args: append([]string{"stet", "demo"}, args...), Stderr: os.Stderr}}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	for in := bufio.NewScanner(out); in.Scan(); {
		line := in.Text()
		d.text += line + "\n"
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			d.steps = append(d.steps, step{command: command})
		}
		if promises, ok := strings.CutPrefix(line, "→ "); ok {
			d.steps[len(d.steps)-1].promises = strings.Split(promises, " · ")
		}
		if line == "ready" {
			return d
		}
	}
	t.Fatalf("the demo did not become ready:\n%s", d.text)
	return nil
}

// end is Ctrl-C: it has to end well.
func (d *runningDemo) end(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}
