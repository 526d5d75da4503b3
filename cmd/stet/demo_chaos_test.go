package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// startChaos starts stet demo --chaos with a directory for temporary files of its own.
func startChaos(t *testing.T, program string, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	tmp = t.TempDir()
	cmd = &exec.Cmd{Path: program, Args: append([]string{"stet", "demo", "--chaos"}, args...),
		Env: append(os.Environ(), "TMPDIR="+tmp), Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, tmp
}

// built builds stet as users do: with the race detector, 300 starts of it take a minute. The other
// tests run this test binary.
func built(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stet")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build: compiled once for all who need it
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return program
}

// Wherever the process dies, the provider has charged once, and the client has its answer: I1, W4,
// W7. This is what the demo looks for itself, so the test is that it ends well and has looked at
// all there is.
func TestChaosDemo(t *testing.T) {
	cmd, tmp := startChaos(t, built(t))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if err != nil {
		wrong := regexp.MustCompile(`(?m)^.*WRONG.*$`).FindAllString(out.String(), -1)
		t.Fatalf("%v: %s\n%s\n%s", err, &said, strings.Join(wrong, "\n"), strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^effects: [1-9][0-9]*, duplicates: 0$`).MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
	for _, how := range []string{"the stored answer was replayed", "completed by the completer",
		"found at the provider by the reconciler",
		"not found at the provider, and run again", "rolled back, and run again", "sent again with the same key",
		"nothing was stored"} {
		if !strings.Contains(out.String(), how) {
			t.Errorf("no window ended as %q", how)
		}
	}
	if rows := regexp.MustCompile(`(?m)^ +\d+ .* 1  [a-z]`).FindAllString(out.String(), -1); len(rows) < 100 {
		t.Errorf("%d windows:\n%s", len(rows), &out)
	}
	noneLeft(t, tmp)
}

// Ctrl-C leaves no processes, and no files but those to keep. They are not in the way of the next
// show.
func TestChaosDemoInterrupted(t *testing.T) {
	kept, program := t.TempDir(), built(t)
	self, err := os.Executable() // with the race detector, once
	if err != nil {
		t.Fatal(err)
	}
	interrupted(t, self)
	interrupted(t, program, "--keep", kept)
	interrupted(t, program, "--keep", kept)
	if shows, err := filepath.Glob(filepath.Join(kept, "chaos-*", "*.jsonl")); err != nil || len(shows) != 4 {
		t.Errorf("kept %v, %v", shows, err)
	}
}

func interrupted(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd, tmp := startChaos(t, program, args...)
	cmd.Stderr = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	at := regexp.MustCompile(`The console at (http://\S+)/keys`)
	var console string
	for in := bufio.NewScanner(out); in.Scan(); {
		if m := at.FindStringSubmatch(in.Text()); m != nil {
			console = m[1]
		}
		if strings.HasPrefix(in.Text(), "   1 ") { // more are under way
			if keys := fetch(t, console+"/keys.json"); !strings.Contains(keys, `"path":"/v1/refunds"`) {
				t.Errorf("the console shows %s", keys)
			}
			if page := fetch(t, console+"/keys"); !strings.Contains(page, "/v1/refunds") {
				t.Errorf("the console shows %s", page)
			}
			if page := fetch(t, console+"/audit?who=chaos"); !strings.Contains(page, ", 1: killed before ") {
				t.Errorf("the console's table is %s", page)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != int(exitError) {
		t.Errorf("interrupted, it ended with %v", err)
	}
	noneLeft(t, tmp)
}

// noneLeft looks for files in tmp, and for processes that were told of it.
func noneLeft(t *testing.T, tmp string) {
	t.Helper()
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	running, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range running {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(tmp)) {
			t.Errorf("still there: %s", line)
		}
	}
}
