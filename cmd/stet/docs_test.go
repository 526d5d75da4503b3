package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What the documents show is what happens: their console blocks are typed into one shell, and print
// what is printed there.
func TestOperateDoc(t *testing.T) {
	docSession(t, "../../docs/operate.md", "", func(commands []string) []string { return commands })
}

// README shows what a retry sees, so each of its requests is sent once before.
func TestReadme(t *testing.T) {
	docSession(t, "../../README.md", "stet gateway --upstream http://127.0.0.1:3000 2>gateway.log &\n"+
		"until curl -sf -o ready.txt http://127.0.0.1:8081/readyz; do sleep 0.1; done",
		func(commands []string) []string {
			for i, c := range commands {
				commands[i] = c + " >first.txt; " + c
			}
			return commands
		})
}

// docSession types the commands of a document, after some of the test's own. The ports it names are
// replaced by free ones, and the sample API is what it calls its upstream.
func docSession(t *testing.T, file, prelude string, change func([]string) []string) {
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	commands, want := consoles(string(doc))
	if len(commands) == 0 {
		t.Fatalf("%s shows nothing", file)
	}
	upstream := httptest.NewServer((&paymentsAPI{}).handler())
	defer upstream.Close()
	there := strings.NewReplacer("127.0.0.1:3000", upstream.Listener.Addr().String(), "127.0.0.1:8080", freePort(t), "127.0.0.1:8081", freePort(t))

	const mark = "-- next --"
	script := prelude
	for _, c := range change(commands) {
		script += "\necho '" + mark + "'\n" + c
	}
	got := strings.Split(runShell(t, there.Replace(withAddresses(script))), mark+"\n")[1:]
	if len(got) != len(want) {
		t.Fatalf("%d of %d commands were run; after the last:\n%s", len(got), len(want), got[len(got)-1])
	}
	for i := range want {
		if g, w := normal(got[i]), normal(there.Replace(want[i])); g != w {
			t.Errorf("$ %s\nprints\n%s\nthe document says\n%s", commands[i], g, w)
		}
	}
}

// withAddresses gives gateways that leave their addresses at the defaults those that stand for
// them.
func withAddresses(script string) string {
	return regexp.MustCompile(`(?m)^stet gateway .*$`).ReplaceAllStringFunc(script, func(c string) string {
		for _, f := range []string{"--listen 127.0.0.1:8080", "--admin 127.0.0.1:8081"} {
			if flag, _, _ := strings.Cut(f, " "); !strings.Contains(c, flag) {
				c = strings.Replace(c, "stet gateway", "stet gateway "+f, 1)
			}
		}
		return c
	})
}

// consoles returns the commands of a document's console blocks, and what each prints.
func consoles(doc string) (commands, output []string) {
	in := false
	for line := range strings.Lines(doc) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			in = line == "```console\n"
		case in && isCommand:
			commands, output = append(commands, strings.TrimSpace(command)), append(output, "")
		case in:
			output[len(output)-1] += line
		}
	}
	return commands, output
}

// runShell runs a script where stet is this very program, with some more environment, and ends
// whatever it has started.
func runShell(t *testing.T, script string, env ...string) string {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "stet")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	sh := exec.CommandContext(ctx, "bash", "-c", "trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n"+script)
	sh.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STET_") {
			sh.Env = append(sh.Env, v)
		}
	}
	sh.Env = append(append(sh.Env, env...), "PATH="+bin+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	sh.Stdout, sh.Stderr = &out, &out
	sh.WaitDelay = time.Second
	if err := sh.Run(); err != nil {
		t.Logf("the shell: %v", err) // the comparison says what is wrong
	}
	return out.String()
}

// normal leaves out what differs from run to run.
func normal(s string) string {
	for _, r := range []struct{ is, becomes string }{
		{`\r`, ``},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, `TIME`},
		{`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT`, `DATE`},
		{`"listen":"[^"]*"`, `"listen":"ADDRESS"`},
		{`"version":"[^"]*"`, `"version":"VERSION"`},
		{`(?m)^(owner +)\S+:\d+$`, `${1}OWNER`},
		{`(?m)^(took +)[\d.]+ ms$`, `${1}TOOK`},
	} {
		s = regexp.MustCompile(r.is).ReplaceAllString(s, r.becomes)
	}
	return strings.TrimSpace(s)
}

// freePort returns an address that is not in use.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return fmt.Sprint(l.Addr())
}
