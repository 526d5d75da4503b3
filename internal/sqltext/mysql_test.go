package sqltext

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// What is written into a statement cannot end its literal: bytes are hexadecimal digits, whatever
// they are.
func FuzzMySQLBytes(f *testing.F) {
	for _, s := range []string{"", "order-4711", "'; DROP TABLE stet_records; --", "\\'", "\x00\xff", "é?", "x'41'"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(MySQL).Bytes(b)
		if len(b) > mysqlLarge {
			if string(q.Text) != "?" || len(q.Args) != 1 {
				t.Errorf("%d bytes are %d of text", len(b), len(q.Text))
			}
			return
		}
		inner, ok := strings.CutPrefix(string(q.Text), "x'")
		inner, end := strings.CutSuffix(inner, "'")
		got, err := hex.DecodeString(inner)
		if !ok || !end || err != nil || !bytes.Equal(got, b) || len(q.Args) != 0 {
			t.Errorf("%q is written as %s", b, q.Text)
		}
	})
}

func TestMySQLValues(t *testing.T) {
	for want, v := range map[string]any{
		"NULL": nil, "0": false, "1": true, "-5": -5, "9223372036854775807": int64(1<<63 - 1), "x''": []byte{}, "x'00ff'": []byte("\x00\xff"),
		"x'61'": "a", "7": sql.NullInt64{Int64: 7, Valid: true},
	} {
		if got := string(new(MySQL).Value(v).Text); got != want {
			t.Errorf("%v is written as %s, want %s", v, got, want)
		}
	}
	for _, v := range []any{[]byte(nil), sql.NullInt64{Int64: 7}} {
		if got := string(new(MySQL).Value(v).Text); got != "NULL" {
			t.Errorf("%#v is written as %s", v, got)
		}
	}
	kept := (&MySQL{Kept: true}).Value("a").Add(", ").Int(5)
	if string(kept.Text) != "?, ?" || len(kept.Args) != 2 {
		t.Errorf("a statement that is kept has its values as arguments: %s, %v", kept.Text, kept.Args)
	}
}

// A statement has as many values as columns, in every form.
func TestMySQLPlacesFitColumns(t *testing.T) {
	r := sample()
	for name, b := range map[string]*stet.Body{"head": nil, "all": &r.Body} {
		w, err := NewMySQLWrite([16]byte{1}, &r.Head, b)
		if err != nil {
			t.Fatal(err)
		}
		columns := 2 + len(identity) + len(head) + len(body) + len(instants) // the order, the format
		insert := w.Insert(&MySQL{Kept: true}, false)
		names, values, ok := strings.Cut(string(insert.Text), ") VALUES (")
		values = strings.ReplaceAll(values, MySQLNow, "NOW")
		if !ok || strings.Count(names, ",")+1 != columns || strings.Count(values, ",")+1 != columns {
			t.Errorf("%s: %d columns: %s", name, columns, insert.Text)
		}
		var group MySQL
		w.AddValues(&group)
		w.AddStamp(&group, &Stamp{Due: 1, Updated: 2, Created: 3})
		if n := strings.Count(string(group.Text), ", ") + 1; n != columns {
			t.Errorf("%s: %d columns and %d values in a group", name, columns, n)
		}
		update := w.Update(&MySQL{Kept: true}, 7)
		// The instants are the server's: due_at has its duration as an argument; then come name,
		// version and format.
		want := columns - 2 - len(instants) + 1 + 2
		if b == nil { // it stays
			want -= len(body)
		}
		if n := strings.Count(string(update.Text), "?"); n != want || len(update.Args) != want {
			t.Errorf("%s: %d places, %d arguments, want %d: %s", name, n, len(update.Args), want, update.Text)
		}
	}
}

func TestMySQLRefuses(t *testing.T) {
	for name, spoil := range map[string]func(r *stet.Record){
		"a long scope": func(r *stet.Record) { r.Scope = stet.Scope(strings.Repeat("s", MySQLNameSize+1)) },
		"a long key":   func(r *stet.Record) { r.Key = stet.Key(strings.Repeat("k", MySQLNameSize+1)) },
		"a long path":  func(r *stet.Record) { r.Path = strings.Repeat("p", mysqlBlobSize+1) },
		"meta of more than 16 MiB": func(r *stet.Record) {
			r.Meta = map[string]string{"x": strings.Repeat("v", mysqlBlobSize)}
		},
		"no version": func(r *stet.Record) { r.Version = 0 },
	} {
		r := sample()
		spoil(&r)
		if _, err := NewMySQLWrite([16]byte{}, &r.Head, &r.Body); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	r := sample()
	r.Response.Body, r.Progress = make([]byte, mysqlBlobSize+1), make([]byte, mysqlBlobSize+1)
	if _, err := NewMySQLWrite([16]byte{}, &r.Head, &r.Body); err != nil {
		t.Errorf("a large body: %v", err)
	}
}

func TestStatements(t *testing.T) {
	got := Statements("-- about; it\nCREATE TABLE a (\n    x INT -- ; not the end\n);\n\n-- more\nCREATE VIEW b AS\nSELECT 1;\n")
	if len(got) != 2 || !strings.HasPrefix(got[0], "CREATE TABLE a") || !strings.HasSuffix(got[0], ")") || got[1] != "CREATE VIEW b AS\nSELECT 1" {
		t.Errorf("%q", got)
	}
}
