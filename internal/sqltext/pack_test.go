package sqltext

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// rowOf is the row that a store reads back.
func rowOf(r *stet.Record) *Row {
	h, tag := &r.Head, int64(0)
	n, tagged := Tag(h.Tag).(int64)
	if tagged {
		tag = n
	}
	row := &Row{kind: mysql, schema: Schema, scope: string(h.Scope), key: string(h.Key), head: PackHead(h), version: int64(h.Version),
		state: h.State.String(), status: int64(h.Status), flags: flags(h), route: h.Route, cause: h.Cause, downKey: h.DownstreamKey,
		downID: h.DownstreamID, body: packBody(r.ID, &r.Body)}
	row.tag.Int64, row.tag.Valid = tag, tagged
	row.dueAt.Valid, row.updatedAt, row.createdAt = true, 1, 1
	return row
}

// What is packed comes back, and in no other way: every byte more or less is refused.
func TestPackedComesBack(t *testing.T) {
	full := sample()
	full.Rules = stet.Rules{Retain: -1, FromCreation: true, OnLapse: stet.LapseAtomic, KeepExpired: 5}
	full.Note = &stet.Note{Who: "w\x00", Why: "\xff", Evidence: "e", Notice: "msg_1\x00"}
	full.Published, full.Reconciled, full.Escalated, full.Kept, full.Took, full.Probes = true, true, true, stet.KeptStatus, time.Hour, 5
	full.Holder, full.Point, full.Cause, full.Route, full.Method, full.Path, full.TraceID = "h", "p", "c", "r", "m", "/", "t"
	full.DownstreamKey, full.DownstreamID = "dk", "di"
	full.Tag = "no id"
	full.Response.Trailer, full.Request = []stet.Field{{Name: "T", Value: ""}}, []byte("\x00")
	tagged := full
	tagged.Tag = "k_0123456789abcdef"
	for name, r := range map[string]stet.Record{"full": full, "tagged": tagged, "sample": sample(), "empty": {Head: stet.Head{Version: 1, State: stet.Running}}} {
		want := r
		s := Stamp{Updated: 1, Created: 1}
		s.Apply(&want.Head)
		read := func(change func(row *Row)) error {
			row := rowOf(&r)
			change(row)
			got, err := row.Record(1)
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s came back as %+v", name, got)
			}
			return err
		}
		if err := read(func(*Row) {}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for what, column := range map[string]func(row *Row) *[]byte{
			"head": func(row *Row) *[]byte { return &row.head }, "body": func(row *Row) *[]byte { return &row.body },
		} {
			for n := range *column(rowOf(&r)) {
				if read(func(row *Row) { c := column(row); *c = (*c)[:n] }) == nil {
					t.Errorf("%s: %d bytes of the %s were taken", name, n, what)
				}
			}
			if read(func(row *Row) { c := column(row); *c = append(*c, 0) }) == nil {
				t.Errorf("%s: a byte more of the %s was taken", name, what)
			}
		}
		for what, change := range map[string]func(row *Row){
			"name": func(row *Row) { row.key += "x" }, "body of another": func(row *Row) { row.body = packBody(stet.ID{Key: "other"}, &r.Body) },
			"flags": func(row *Row) { row.flags ^= flagKeeps }, "route": func(row *Row) { row.route += "x" },
			"format": func(row *Row) { row.schema++ }, "status": func(row *Row) { row.status++ },
		} {
			if err := read(change); !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("%s: another %s: %v", name, what, err)
			}
		}
	}
}

// Damage is an error, whatever it is, and nothing is read beyond the end.
func FuzzUnpack(f *testing.F) {
	r := sample()
	f.Add(PackHead(&r.Head))
	f.Add(packBody(r.ID, &r.Body))
	f.Fuzz(func(t *testing.T, b []byte) {
		row := rowOf(&r)
		row.head = b
		if h, err := row.Head(1); err == nil && (h.Kept > stet.KeptStatus || !h.Rules.OnLapse.Valid()) {
			t.Error("an unknown value was taken")
		}
		if _, ok := unpackBody(r.ID, b); ok && bodySum(r.ID, b[4:]) != binary.BigEndian.Uint32(b) {
			t.Error("another checksum was taken")
		}
		if len(b) < 4 {
			return
		}
		b = bytes.Clone(b) // beyond the checksum, which hides what is behind it
		binary.BigEndian.PutUint32(b, bodySum(r.ID, b[4:]))
		if got, ok := unpackBody(r.ID, b); ok && !bytes.Equal(packBody(r.ID, &got), b) {
			t.Error("a body has two encodings")
		}
		columns, _ := split(&r.Head)
		binary.BigEndian.PutUint32(b, headSum(b[4:], &columns))
		row.head = b
		if h, err := row.Head(1); err == nil && (h.Kept > stet.KeptStatus || !h.Rules.OnLapse.Valid()) {
			t.Error("an unknown value was taken")
		}
	})
}

// What a caller does with its buffers after it gave up must not reach the database: arguments are
// memory of their own.
func TestArgumentsOwnTheirBytes(t *testing.T) {
	r := sample()
	r.Response.Body, r.Progress = []byte("the truth"), []byte("the truth")
	args := Body(nil, r.ID, &r.Body)
	want := bytes.Clone(args[0].([]byte))
	copy(r.Response.Body, "a lie....")
	copy(r.Progress, "a lie....")
	if !bytes.Equal(args[0].([]byte), want) {
		t.Error("the argument of a body changes with the body")
	}
}
