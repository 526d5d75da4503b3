package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/operate"
)

// The incident of the demo can be solved by commands alone: the operator types what the command
// before has suggested, and fills in what the API's books say.
func TestDemoIncidentByCommands(t *testing.T) {
	t.Parallel()
	s := openIncident(t)
	status, _ := typeCommand(t, "stet status --admin "+s.admin)
	show := suggestion(t, status, "stet incidents show "+s.id)
	list, _ := typeCommand(t, show)
	ids := idsIn(list)
	if len(ids) != cutOff {
		t.Fatalf("%s shows %d keys:\n%s", show, len(ids), list)
	}

	refused, _ := typeCommand(t, "stet keys release --incident "+s.id+" --admin "+s.admin+" --reason 'they look lost' --yes")
	report, _ := typeCommand(t, suggestion(t, refused, "stet keys bulk report"))
	if left := idsIn(report); !strings.Contains(refused, "changed 0\n") || len(left) != cutOff {
		t.Fatalf("to release all at once said\n%s\nand its report has %d keys:\n%s", refused, len(left), report)
	}

	first := suggestion(t, list, "stet keys show "+ids[0])
	for _, id := range ids {
		shown, _ := typeCommand(t, strings.Replace(first, ids[0], id, 1))
		revealed, _ := typeCommand(t, withWords(suggestion(t, shown, "stet keys show "+id), "TEXT", "'INC-7'"))
		key := lineOf(t, revealed, "key")
		next := suggestion(t, shown, "stet keys release "+id)
		made, happened := s.find(t, key)
		if happened {
			next = suggestion(t, shown, "stet keys resolve "+id)
		}
		body := filepath.Join(t.TempDir(), "answer.json")
		if err := os.WriteFile(body, []byte(made.answer(t)), 0o600); err != nil {
			t.Fatal(err)
		}
		next = withWords(next, "N", "201", "TYPE", "application/json", "FILE", body, "TEXT", "'looked up in the books, INC-7'")
		if said, _ := typeCommand(t, next+" --yes"); said != "changed 1\n" {
			t.Fatalf("%s\n%s", next, said)
		}
	}

	if over, ended := typeCommand(t, show); ended != exitNotFound {
		t.Errorf("after it was solved, the incident is\n%s", over)
	}
	if status, _ = typeCommand(t, "stet status --admin "+s.admin); strings.Contains(status, s.id) {
		t.Errorf("the incident is still in\n%s", status)
	}
	s.prove(t)
}

// The incident of the demo can be solved by the console alone, as a browser without scripts shows
// it: by its links, its forms and the labels of their fields.
func TestDemoIncidentByConsole(t *testing.T) {
	t.Parallel()
	s := openIncident(t)
	b := newBrowser(t, s.admin)
	b.open("/")
	b.follow("/unknown/" + s.id)
	incident := b.at.Path
	// A page about many keys may be a second old, and still say that a handler may come back.
	for end := time.Now().Add(patience); !strings.Contains(b.text, "Then decide key by key, each on its own page."); b.open(incident) {
		if time.Now().After(end) {
			t.Fatalf("the incident does not say how to go on:\n%s", b.text)
		}
		runtime.Gosched()
	}
	var ids []string
	pick := map[string]string{}
	for _, c := range b.controls {
		if id, ok := strings.CutPrefix(c.label, "Pick k_"); ok {
			ids = append(ids, "k_"+id)
			pick[c.label] = c.attr["value"]
		}
	}
	if len(ids) != cutOff {
		t.Fatalf("the incident has %d keys to pick:\n%s", len(ids), b.text)
	}
	b.press("It did not…", pick)
	if !strings.Contains(b.text, "This can be done with none of them now") ||
		!strings.Contains(b.text, fmt.Sprintf("Left out: %d ", cutOff)) || len(idsIn(b.text)) != cutOff {
		t.Fatalf("to free all at once is answered\n%s", b.text)
	}

	for _, id := range ids {
		b.open(incident)
		b.follow("/keys/" + id)
		b.press("Show them once", map[string]string{"Why you look": "INC-7"})
		key := b.defined("key")
		made, happened := s.find(t, key)
		why := map[string]string{"Why you are sure": "looked up in the books, INC-7", "Evidence": cmp.Or(made.ID, "no charge")}
		if happened {
			b.follow("/keys/" + id + "/happened")
			why["Status"], why["Content-Type"], why["Body that retries get"] = "201", "application/json", made.answer(t)
			b.press("It happened: give retries this answer", why)
		} else {
			b.follow("/keys/" + id + "/released")
			b.press("It did not: free the key", why)
		}
		if b.at.Path != "/keys/"+id || strings.Contains(b.text, "It happened…") {
			t.Fatalf("after %s was settled, %s shows\n%s", key, b.at, b.text)
		}
	}

	b.open(incident)
	if !strings.Contains(b.text, "This incident has ended") {
		t.Errorf("after it was solved, the incident shows\n%s", b.text)
	}
	b.open("/unknown")
	if len(idsIn(b.text)) > 0 {
		t.Errorf("something waits:\n%s", b.text)
	}
	s.prove(t)
}

// openedIncident is a demo of its own, with the addresses that its text names.
type openedIncident struct {
	gateway, admin, id string
	happened           map[string]charge // per the books, before the operator came; by key
}

func openIncident(t *testing.T) *openedIncident {
	t.Helper()
	demo := startDemo(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	t.Cleanup(func() { demo.end(t) })
	found := regexp.MustCompile(`(http://\S+)/unknown/(i_\w+)\n`).FindStringSubmatch(demo.text)
	behind := regexp.MustCompile(`behind Stet at (http://[^;\s]+)`).FindStringSubmatch(demo.text)
	if found == nil || behind == nil {
		t.Fatalf("the demo names no incident:\n%s", demo.text)
	}
	s := &openedIncident{gateway: behind[1], admin: found[1], id: found[2], happened: map[string]charge{}}
	for i := range cutOff {
		if made, ok := s.find(t, incidentKey(i)); ok {
			s.happened[incidentKey(i)] = made
		}
	}
	if len(s.happened) != taken {
		t.Fatalf("the books have %d of the incident's charges", len(s.happened))
	}
	return s
}

// incidentKey is the key of a client whose request was under way when the gateway was killed.
func incidentKey(i int) string { return (&night{run: "demo"}).key(fmt.Sprint(i + 1)) }

// find looks a key up in the API's books.
func (s *openedIncident) find(t *testing.T, key string) (made charge, ok bool) {
	t.Helper()
	res, err := http.Get(s.gateway + "/v1/charges?key=" + url.QueryEscape(key))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusNotFound {
		return made, false
	}
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the books answer %s: %v", res.Status, err)
	}
	return made, true
}

// answer is what the API would have answered.
func (c charge) answer(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// retry is what a client does that has not heard what became of its payment, until it has heard it.
func (s *openedIncident) retry(t *testing.T, key, form string) (told charge) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.gateway+"/v1/charges", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	err = json.NewDecoder(res.Body).Decode(&told)
	if media := res.Header.Get("Content-Type"); err != nil || res.StatusCode != http.StatusCreated || media != "application/json" {
		t.Errorf("the client of %s hears %s with %q: %+v, %v", key, res.Status, media, told, err)
	}
	return told
}

// prove lets each client retry with its key, twice, and holds records, answers and books together:
// each payment is there once.
func (s *openedIncident) prove(t *testing.T) {
	t.Helper()
	for i := range cutOff {
		key := incidentKey(i)
		settled, want := operate.Record{}, "retryable"
		if _, ok := s.happened[key]; ok {
			want = "completed"
		}
		if err := json.Unmarshal([]byte(fetch(t, s.admin+"/api/v1/keys/default/"+key)), &settled); err != nil || settled.State != want {
			t.Errorf("%s is %q, want %s (%v)", key, settled.State, want, err)
		}
		for range 2 {
			told := s.retry(t, key, under(i))
			if made, ok := s.find(t, key); !ok || told != (charge{ID: made.ID, Amount: 1001 + i}) {
				t.Errorf("the client of %s hears %+v, and the books have %+v", key, told, made)
			}
		}
	}
	var books struct{ Ledger []charge }
	if err := json.Unmarshal([]byte(fetch(t, s.gateway+"/v1/charges")), &books); err != nil {
		t.Fatal(err)
	}
	times := map[int]int{}
	for _, c := range books.Ledger {
		times[c.Amount]++
	}
	for i := range cutOff {
		if n := times[1001+i]; n != 1 {
			t.Errorf("the books have the payment of %s %d times", incidentKey(i), n)
		}
	}
	if len(books.Ledger) != cutOff+earlier-taken {
		t.Errorf("the books have %d charges: %+v", len(books.Ledger), books.Ledger)
	}
}

// idsIn are the ids of records in a text, each once.
func idsIn(text string) []string {
	var ids []string
	for _, id := range regexp.MustCompile(`k_[0-9a-f]{16}`).FindAllString(text, -1) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// suggestion returns the command that a text suggests and that begins so, up to where the sentence
// around it goes on.
func suggestion(t *testing.T, text, begins string) string {
	t.Helper()
	all := regexp.MustCompile(regexp.QuoteMeta(begins)+`(?: (?:--[a-z-]+|'[^']*'|http://[^\s,;]+|@?[A-Z]+\b|\w+_\w+))*`).FindAllString(text, -1)
	if len(all) == 0 {
		t.Fatalf("%s… is not suggested by\n%s", begins, text)
	}
	return all[0]
}

// typeCommand runs a command as a shell would that reads this line, and returns what a terminal
// shows. It starts no process, because the test types some fifty lines.
func typeCommand(t *testing.T, line string) (shown string, ended exit) {
	t.Helper()
	var args []string
	for _, word := range regexp.MustCompile(`(?:'[^']*'|[^' ])+`).FindAllString(line, -1) {
		args = append(args, strings.ReplaceAll(word, "'", ""))
	}
	var out bytes.Buffer
	ended = run(t.Context(), args[1:], nil, &out, &out)
	return out.String(), ended
}

// withWords puts words in the place of those in capitals.
func withWords(command string, words ...string) string {
	for i := 0; i < len(words); i += 2 {
		command = regexp.MustCompile(`\b`+words[i]+`\b`).ReplaceAllLiteralString(command, words[i+1])
	}
	return command
}

// lineOf is what a command prints beside a name.
func lineOf(t *testing.T, text, name string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + ` +(\S+)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatalf("no line %s in\n%s", name, text)
	}
	return line[1]
}
