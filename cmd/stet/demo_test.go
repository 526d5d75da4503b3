package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
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

// When the demo says ready, its console has what it names: the incident of a killed gateway, a dead
// letter and a mismatch. Nothing has to be pasted first.
func TestDemoHasWhatWaits(t *testing.T) {
	demo := startDemo(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	var incident operate.Incident
	demo.page(t, "/unknown/i_", &incident)
	if incident.Count != cutOff || incident.Cause != stet.CauseHolderGone || incident.Asking.Count < cutOff ||
		incident.Probes["missing"] != cutOff || len(incident.Keys) != cutOff {
		t.Errorf("the incident is %+v", incident)
	}
	var dead, twice operate.Record
	pages := demo.page(t, "/keys/k_", &dead, &twice)
	if !dead.Escalated || dead.Probe == nil || dead.Probe.Found != "missing" || dead.Probe.Status != http.StatusNotFound {
		t.Errorf("the dead letter is %+v", dead)
	}
	if twice.Mismatch == nil || !slices.Equal(twice.Mismatch.Parts, []string{"body"}) {
		t.Errorf("the mismatch is %+v", twice.Mismatch)
	}
	for page, shows := range map[string]string{pages[0]: "dead letter", pages[1]: "The other request"} {
		if text := fetch(t, page); !strings.Contains(text, shows) {
			t.Errorf("%s does not show %q:\n%s", page, shows, text)
		}
	}
	demo.end(t)
}

// page reads the API's documents of the pages that the demo names with this in their address.
func (d *runningDemo) page(t *testing.T, with string, into ...any) []string {
	t.Helper()
	urls := regexp.MustCompile(`(?m)http://\S+`+regexp.QuoteMeta(with)+`\w+$`).FindAllString(d.text, -1)
	if len(urls) != len(into) {
		t.Fatalf("the demo names %d pages %s…:\n%s", len(urls), with, d.text)
	}
	for i, url := range urls {
		doc := strings.NewReplacer("/unknown/", "/api/v1/incidents/", "/keys/", "/api/v1/keys/").Replace(url)
		if err := json.Unmarshal([]byte(fetch(t, doc)), into[i]); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
	}
	return urls
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return string(body)
}

// The usual ports may be in use: the demo says so and takes others, unless it was told which.
func TestDemoWherePortsAreInUse(t *testing.T) {
	for _, usual := range []string{"127.0.0.1:8080", "127.0.0.1:8081"} {
		if l, err := net.Listen("tcp", usual); err == nil { // else another process has it, which is as good
			defer func() { _ = l.Close() }()
		}
	}
	demo := startDemo(t)
	for _, says := range []string{"127.0.0.1:8080 is in use, so the demo takes a free port; --listen",
		"127.0.0.1:8081 is in use, so the demo takes a free port; --admin"} {
		if !strings.Contains(demo.text, says) {
			t.Errorf("%q is not said:\n%s", says, demo.text)
		}
	}
	if strings.Contains(demo.text, "http://127.0.0.1:808") {
		t.Errorf("it names what is not its own:\n%s", demo.text)
	}
	demo.end(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	asked := &exec.Cmd{Path: self, Args: []string{"stet", "demo", "--admin", "127.0.0.1:8081"}}
	said, _ := asked.CombinedOutput()
	if got := asked.ProcessState.ExitCode(); got != int(exitError) ||
		!strings.Contains(string(said), "--listen and --admin choose others") {
		t.Errorf("it ended with %d: %s", got, said)
	}
}

// Ctrl-C while the demo is prepared ends it well too, and the gateway that it was about to kill.
func TestDemoInterruptedEarly(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	demo := demoProcess(t)
	out := demo.start(t)
	for in := bufio.NewScanner(out); in.Scan(); {
		if strings.Contains(in.Text(), "is killed while") {
			if err := demo.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := demo.cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
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

// runningDemo is stet demo in a process of its own, past its last start-up line.
type runningDemo struct {
	cmd   *exec.Cmd
	text  string
	steps []step
}

// demoProcess is a demo that has not begun.
func demoProcess(t *testing.T, args ...string) *runningDemo {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &runningDemo{cmd: &exec.Cmd{Path: self, Args: append([]string{"stet", "demo"}, args...), Stderr: os.Stderr}}
	d.cmd.Env = append(os.Environ(), "STET_STORE=none:", "STET_PROFILE=none", "STET_CONFIG=none.yaml") // nothing to a demo
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return d
}

func (d *runningDemo) start(t *testing.T) io.Reader {
	t.Helper()
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	return out
}

func startDemo(t *testing.T, args ...string) *runningDemo {
	t.Helper()
	d := demoProcess(t, args...)
	out := d.start(t)
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
