package chaos

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
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
		if got := name(statement); got != want {
			t.Errorf("%q is called %q, want %q", statement, got, want)
		}
	}
}

// What a process does before it is armed, and after it is disarmed, is not counted.
func TestPointsCountWhatIsArmed(t *testing.T) {
	var out strings.Builder
	p := &points{out: &out}
	p.pass("start")()
	p.arm()
	p.pass("BEGIN")()
	p.pass("COMMIT")()
	p.disarm()
	p.pass("end")()
	if want := "point BEGIN\npoint COMMIT\n"; out.String() != want || p.count != 2 {
		t.Errorf("%d points: %q", p.count, out.String())
	}
}

// Each effect is to be there once, and each request to have its answer.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		o    outcome
		want Result
	}{
		{outcome{effects: 1}, Result{Effects: 1}},
		{outcome{effects: 1, killed: true}, Result{Windows: 1, Effects: 1}},
		{outcome{effects: 3, killed: true}, Result{Windows: 1, Effects: 3, Duplicates: 2}},
		{outcome{killed: true}, Result{Windows: 1, Lost: 1}},
		{outcome{effects: 1, wrong: errNoAnswer}, Result{Effects: 1, Lost: 1}},
	} {
		if got := c.o.count(); got != c.want {
			t.Errorf("%+v counts as %+v, want %+v", c.o, got, c.want)
		}
	}
}
