package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/freeport"
)

// What the documents show is what happens: their console blocks are typed into one shell, and print
// what is printed there.
func TestOperateDoc(t *testing.T) {
	t.Parallel()
	docSession(t, operateDoc, "", asWritten)
}

// Likewise the reference of the command line.
func TestCommandLineDoc(t *testing.T) {
	t.Parallel()
	docSession(t, commandLineDoc, shop, asWritten)
}

// shop is the outbox of a service.
const shop = `stet migrate up --store sqlite:shop.db
sqlite3 shop.db <<'SQL'
INSERT INTO stet_outbox VALUES (2, 7, 'dead', 0, 3, 'acme', 'order-2', 1, 'charge', '', '', 'ob_2', 'ch_2', x'7b7d', '{}', '{"attempt":3,"at":1,"error":"declined: no funds"}
', 1, 1, 1, 0);
INSERT INTO stet_outbox VALUES (3, 3, 'unknown', 0, 1, 'acme', 'order-3', 1, 'mail', '', '', 'ob_3', '', x'7b7d', '{}', '', 1, 1, 1, 0);
INSERT INTO stet_outbox VALUES (4, 7, 'dead', 0, 3, 'acme', 'order-4', 1, 'mail', '', '', 'ob_4', '', x'7b7d', '{}', '{"attempt":3,"at":1,"error":"no such mailbox"}
', 1, 1, 1, 0);
SQL`

func asWritten(commands []string) []string { return commands }

// README shows what a retry sees, so each of its requests is sent once before.
func TestReadme(t *testing.T) {
	t.Parallel()
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
	api := upstream.Listener.Addr().String()
	ports := []string{"127.0.0.1:3000", api, "127.0.0.1:8080", freePort(t), "127.0.0.1:8081", freePort(t)}
	there := strings.NewReplacer(ports...)
	slices.Reverse(ports)
	back := strings.NewReplacer(ports...)

	const mark = "-- next --"
	script := prelude
	for _, c := range change(commands) {
		script += "\necho '" + mark + "'\n" + thatIncident(c)
	}
	got := strings.Split(runShell(t, there.Replace(withAddresses(script))), mark+"\n")[1:]
	if len(got) != len(want) {
		t.Fatalf("%d of %d commands were run; after the last:\n%s", len(got), len(want), got[len(got)-1])
	}
	each := func(all string) []string { return strings.Split(canonical(all), mark+"\n") }
	printed := back.Replace(strings.Join(got, mark+"\n"))
	shown, is, says := each(asOfTheDocument(printed)), each(atOnce(printed)), each(atOnce(strings.Join(want, mark+"\n")))
	now := string(doc)
	for i := range want {
		if inShort(is[i]) == inShort(says[i]) {
			continue
		}
		now = strings.Replace(now, "$ "+commands[i]+"\n"+want[i], "$ "+commands[i]+"\n"+shown[i], 1)
		if !*update {
			t.Errorf("$ %s\nprints\n%s\nthe document says\n%s", commands[i], shown[i], want[i])
		}
	}
	if *update && now != string(doc) {
		if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// withAddresses gives gateways that leave their addresses at the defaults those that stand for
// them.
func withAddresses(script string) string {
	return regexp.MustCompile(`(?m)^stet (gateway|demo) .*$`).ReplaceAllStringFunc(script, func(c string) string {
		for _, f := range []string{"--listen 127.0.0.1:8080", "--admin 127.0.0.1:8081"} {
			if flag, _, _ := strings.Cut(f, " "); !strings.Contains(c, flag) {
				c = regexp.MustCompile(`^stet \w+`).ReplaceAllString(c, "$0 "+f)
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
	ctx, cancel := context.WithTimeout(t.Context(), 9*patience) // a page starts the program dozens of times
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
	sh.WaitDelay = patience
	if err := sh.Run(); err != nil {
		t.Logf("the shell: %v", err) // the comparison says what is wrong
	}
	return out.String()
}

// volatile is what differs from run to run, and what the documents have for it.
var volatile = []struct{ is, becomes string }{
	{`\r`, ``},
	{`(?m)^grep: .*: No such file or directory\n`, ``}, // the file is made in the background
	{`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT`, `Sat, 21 Nov 2026 08:40:00 GMT`},
	{`"listen":"[^"]*"`, `"listen":"[::]:8080"`},
	{`"admin":"[^"]*"`, `"admin":"127.0.0.1:8081"`},
	{`"version": ?"[^"]*"`, `"version":"devel"`},
	{`(?m)^stet (devel|v\d)\S* go\S+$`, `stet v0.1.0 go1.26`},
	{`\b` + hostName() + `:\d+`, `gateway-1:4711`},
	{`(?m)^(owner +)\S+:\d+$`, `${1}gateway-1:4711`},
	{`(?m)^(took +)[\d.]+ ms$`, `${1}1.2 ms`},
	{`(?m)^(probes +)\d+$`, `${1}1`},
	{`(?m)^requests +[\d.]+/s.*\n`, ``}, // it is there once the first figures are published
	{`p50 [\d.]+ ms, p99 [\d.]+ ms`, `p50 0.1 ms, p99 1.2 ms`},
	{`in [\d.]+(ms|µs):`, `in 1.2ms:`},
	{`(idem_unknown_oldest_age_seconds) .*`, `${1} 1.2`},
	{`asked (once|\d+ times)\.`, `asked once.`},
	{`\d probes are left`, `7 probes are left`},
	{`come again after 1?\d s`, `come again after 8 s`},
	{`Now the API is asked again`, `At 08:40:00 UTC the API is asked again`},
	{`/\S+/stet-demo-\d+/`, `/tmp/stet-demo-1/`},
	{`\bbulk_[a-z0-9]{20,}`, `bulk_gkrbpiynsisvt6ptgbbhmwhkib`},
	{`\bstet_[\w-]{43}`, `stet_rMcqMOUB-gHLtFfOf7LOh1Lq8XUHqmmsLOHbTL7QxXk`},
	{`\bwhsec_\S+`, `whsec_bXvCpDkJlj9n0cCqn0oqWTK12RZAQ/DBlSXbo7UrnyY=`},
	{`"[0-9a-f]{64}"`, `"cd2a4c67846b5adee2876522db595957a4fe9bba1af7624b394d9989e0b8bc33"`},
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return regexp.QuoteMeta(name)
}

// canonical replaces what is volatile in the outputs of a session. Incidents get their ids in the
// order in which they appear, so that a reader can tell one from another.
func canonical(s string) string {
	for _, v := range volatile {
		s = regexp.MustCompile(v.is).ReplaceAllString(s, v.becomes)
	}
	stores := map[string]string{}
	s = regexp.MustCompile(`\bst_[A-Z2-7]{20}\b`).ReplaceAllStringFunc(s, func(id string) string {
		if stores[id] == "" {
			stores[id] = storeID(len(stores))
		}
		return stores[id]
	})
	ids := map[string]string{}
	return regexp.MustCompile(`\bi_[0-9a-f]{16}\b`).ReplaceAllStringFunc(s, func(id string) string {
		if ids[id] == "" {
			ids[id] = incidentID(len(ids) + 1)
		}
		return ids[id]
	})
}

// storeID is what documents call the n-th store of a session, from 0.
func storeID(n int) string { return "st_" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n:n+20] }

// incidentID is what documents call the n-th incident of a session.
func incidentID(n int) string { return fmt.Sprintf("i_%016x", uint64(n)*0x5cddca42903463fb) }

// thatIncident lets a command name the incident that a document means, by its place in the list.
func thatIncident(command string) string {
	for n := range 2 {
		command = strings.ReplaceAll(command, incidentID(n+1),
			fmt.Sprintf("${incident%d:=$(stet incidents list --columns incident | sed -n %dp)}", n, n+2))
	}
	return command
}

var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// clocks are the instants of sentences.
var clocks = regexp.MustCompile(`\b([A-Z][a-z]{2} |\d+ [A-Z][a-z]{2} (\d{4} )?)?\d\d:\d\d(:\d\d)? UTC\b`)

// atOnce makes all instants one: when things happen differs from run to run.
func atOnce(s string) string {
	return clocks.ReplaceAllString(instants.ReplaceAllString(s, "2026-11-21T08:40:00Z"), "08:40:00 UTC")
}

// asOfTheDocument moves the instants of a session to the day of the documents.
func asOfTheDocument(s string) string {
	var by time.Duration
	s = instants.ReplaceAllStringFunc(s, func(text string) string {
		begin := time.Date(2026, 11, 21, 8, 40, 0, 0, time.UTC)
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.Year() < 2000 { // the shop's outbox is as old as Unix
			return begin.Format(time.RFC3339)
		}
		if by == 0 {
			by = begin.Sub(at.Truncate(time.Second))
		}
		if strings.Contains(text, ".") {
			return at.Add(by).Format("2006-01-02T15:04:05.000000000Z07:00")
		}
		return at.Add(by).Format(time.RFC3339)
	})
	return clocks.ReplaceAllStringFunc(s, func(text string) string {
		const clock = "15:04:05 UTC"
		at, err := time.Parse(clock, text)
		if err != nil { // of another day
			return "08:40:00 UTC"
		}
		return at.Add(by).Format(clock)
	})
}

// inShort leaves out how wide columns are: that depends on what is volatile.
func inShort(s string) string {
	return strings.TrimSpace(regexp.MustCompile(` {2,}`).ReplaceAllString(s, "  "))
}

// freePort returns an address that no other test is given.
func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", freeport.Of(t, 1)[0])
}
