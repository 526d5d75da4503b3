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

// program is set in processes that are the program, and not its test.
const program = "CHAOS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start prepares the program, with a directory for temporary files of its own.
func start(t *testing.T, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp = t.TempDir()
	cmd = exec.Command(self, args...)
	cmd.Env = append(os.Environ(), program+"=1", "TMPDIR="+tmp, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, tmp
}

// Wherever the process dies, the provider has charged once, and the client has its answer: I1, W4,
// W7. This is what the program looks for itself, so the test is that it ends well and has looked at
// all there is.
func TestChaos(t *testing.T) {
	cmd, tmp := start(t)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if err != nil {
		wrong := regexp.MustCompile(`(?m)^.*WRONG.*$`).FindAllString(out.String(), -1)
		t.Fatalf("%v: %s\n%s\n%s", err, &said, strings.Join(wrong, "\n"), strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^[1-9][0-9]* kills in \S+; effects: [1-9][0-9]*, duplicates: 0, lost: 0$`).MatchString(last) {
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
func TestInterrupted(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	interrupted(t)
	interrupted(t, "-keep", kept)
	interrupted(t, "-keep", kept)
	if shows, err := filepath.Glob(filepath.Join(kept, "chaos-*", "*.jsonl")); err != nil || len(shows) != 4 {
		t.Errorf("kept %v, %v", shows, err)
	}
}

func interrupted(t *testing.T, args ...string) {
	t.Helper()
	cmd, tmp := start(t, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for in := bufio.NewScanner(out); in.Scan(); {
		if strings.HasPrefix(in.Text(), "   1 ") { // more are under way
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
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
