package crashpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	for statement, want := range map[string]string{
		"BEGIN IMMEDIATE": "BEGIN",
		"COMMIT":          "COMMIT",
		"INSERT INTO payments (id, key) VALUES (?, ?)":        "INSERT payments",
		"insert or ignore into t(a) values (1)":               "INSERT t",
		"UPDATE stet_records SET a = 1":                       "UPDATE stet_records",
		"SELECT a FROM t, u":                                  "SELECT t",
		"SELECT a, b\n\tFROM stet_records WHERE x = ?":        "SELECT stet_records",
		"DELETE FROM stet_records WHERE id IN (SELECT 1)":     "DELETE stet_records",
		"PRAGMA foreign_keys":                                 "PRAGMA",
		"UPDATE stet_outbox SET a = 1 WHERE id IN (SELECT 1)": "UPDATE stet_outbox",
	} {
		if got := What(label(statement) + ", before, 1"); got != want {
			t.Errorf("%q is called %q, want %q", statement, got, want)
		}
	}
	if a, b := label("UPDATE t SET a = 1"), label("UPDATE t  SET a = 23"); a != b {
		t.Errorf("values make a difference: %q, %q", a, b)
	}
	if a, b := label("UPDATE t SET a = 1"), label("UPDATE t SET b = 1"); a == b {
		t.Errorf("two statements are %q", a)
	}
}

// What a process does before it is armed, and after it is disarmed, is not counted.
func TestPointsCountWhatIsArmed(t *testing.T) {
	var out strings.Builder
	p := &Points{Out: &out}
	p.Around("START")()
	p.Arm()
	p.Around("BEGIN")()
	p.Around("BEGIN")()
	p.Disarm()
	p.Around("END")()
	want := []string{"BEGIN, before, 1", "BEGIN, after, 1", "BEGIN, before, 2", "BEGIN, after, 2"}
	if got := strings.Split(strings.ReplaceAll(strings.TrimSpace(out.String()), pointPrefix, ""), "\n"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Apart(want); !slices.Equal(got, []string{want[0], want[1], want[3]}) {
		t.Errorf("apart there are %q", got)
	}
}

// A request has a point before it, one when it is on its way, and one when its answer has begun to
// come.
func TestTransport(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	var out strings.Builder
	p := &Points{Out: &out}
	p.Arm()
	res, err := (&http.Client{Transport: p.Transport()}).Get(s.URL + "/found")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if want := []string{"GET /found, before", Answer + ", before", "GET /found, after"}; !slices.Equal(passed(out.String()), want) {
		t.Errorf("%q, want %q", passed(out.String()), want)
	}
}

// life is what TestMain runs instead of the tests: see TestProcess.
const life = "STET_CRASHPOINT"

func TestMain(m *testing.M) {
	kind := os.Getenv(life)
	if kind == "" {
		os.Exit(m.Run())
	}
	p := &Points{Out: os.Stdout, At: "WRITE, after, 1"}
	ctx, cancel := Attach(context.Background(), os.Stdin)
	defer cancel()
	err := Serve(ctx, os.Stdout, p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Around(r.Header.Get("Idempotency-Key"))()
	})))
	if kind == "fails" {
		err = errors.New("it fails")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func self(t *testing.T, kind string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), life+"="+kind, "GORACE=atexit_sleep_ms=0")
	p, err := Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A process dies at its point, and has told what it passed; one that comes to no such point ends
// well, when it is asked to.
func TestProcess(t *testing.T) {
	p := self(t, "lives")
	if _, err := Post(t.Context(), p.URL, "WRITE", "application/json", "{}"); err == nil {
		t.Error("it answered")
	}
	killed, err := p.Wait(t.Context())
	if want := []string{"WRITE, before, 1", "WRITE, after, 1"}; !killed || err != nil || !slices.Equal(p.Points(), want) {
		t.Errorf("killed %v, %v, after %q", killed, err, p.Points())
	}
	if died, err := p.Died(); !died || err != nil {
		t.Errorf("died %v, %v", died, err)
	}
	p = self(t, "lives")
	if a, err := Post(t.Context(), p.URL, "READ", "application/json", "{}"); err != nil || a.Status != http.StatusOK {
		t.Errorf("%+v, %v", a, err)
	}
	if died, err := p.Died(); died || err != nil {
		t.Errorf("died %v, %v", died, err)
	}
	if killed, err := p.End(t.Context()); killed || err != nil {
		t.Errorf("killed %v, %v", killed, err)
	}
	if _, err := p.Died(); err == nil {
		t.Error("it ended by itself, and nothing is said")
	}
}

// What goes wrong in a process is told with what it said, or with what it was at.
func TestProcessThatFails(t *testing.T) {
	if killed, err := self(t, "fails").End(t.Context()); killed || err == nil || !strings.Contains(err.Error(), "it fails") {
		t.Errorf("killed %v, %v", killed, err)
	}
	p := self(t, "lives")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if killed, err := p.Wait(over); killed || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "crashpoint.Serve") {
		t.Errorf("killed %v, %v", killed, err)
	}
}
