package sealstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/sealstore"
)

var id = stet.ID{Scope: "tenant-secret", Key: "key-secret"}

// secret is a completed record that says "secret" wherever it is to be sealed.
func secret() stet.Record {
	r := stet.Record{Head: stet.Head{ID: id, Version: 1, State: stet.Completed, Status: 201, Size: 6, DueIn: time.Hour,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{7}}, Route: "charges", Method: "POST", Path: "/v1/charges",
		Meta: map[string]string{"name-secret": "value-secret"}, Note: &stet.Note{Who: "ops", Why: "asked", Evidence: "evidence-secret"},
		DownstreamID: "ch_1"}}
	r.Response = &stet.Response{Status: 201, Header: []stet.Field{{Name: "X", Value: "header-secret"}},
		Trailer: []stet.Field{{Name: "Y", Value: "trailer-secret"}}, Body: []byte("body-secret")}
	r.Request, r.Progress = []byte("request-secret"), []byte("progress-secret")
	return r
}

func create(t *testing.T, s stet.Store, r stet.Record) stet.Record {
	t.Helper()
	got, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// spelled is everything a record holds, as text.
func spelled(t *testing.T, s stet.Store) string {
	t.Helper()
	l, _ := stet.As[stet.Lister](s)
	heads, _, err := l.List(t.Context(), stet.Query{})
	if err != nil || len(heads) == 0 {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, h := range heads {
		r, err := s.Get(t.Context(), h.ID)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%q %q %v %v %q %q\n", string(r.Scope), string(r.Key), r.Meta, r.Note, r.Request, r.Progress)
		if r.Response != nil {
			fmt.Fprintf(&out, "%v %v %q\n", r.Response.Header, r.Response.Trailer, r.Response.Body)
		}
	}
	h, _ := stet.As[stet.Historian](s)
	changes, _, err := h.History(t.Context(), stet.HistoryQuery{})
	if err != nil || len(changes) == 0 {
		t.Fatalf("%d changes: %v", len(changes), err)
	}
	for _, c := range changes {
		fmt.Fprintf(&out, "%q %q %v\n", string(c.ID.Scope), string(c.ID.Key), c.Note)
	}
	return out.String()
}

// noted replaces r by itself with a new version, so that its note becomes history.
func noted(t *testing.T, s stet.Store, r stet.Record) {
	t.Helper()
	h := r.Head
	h.Version++
	h.Note = secret().Note
	h.DueIn = time.Hour
	if _, err := s.Replace(t.Context(), r.Version, h, nil); err != nil {
		t.Fatal(err)
	}
}

// SE-08: who has the store, and no key, reads neither what was asked nor what was answered.
func TestNothingSecretIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		keys  sealstore.Keys
		plain int // of names: the scope and the key of the record and of the history
	}{"plain names": {oneKey(), 4}, "hashed names": {hashedNames(), 0}} {
		t.Run(name, func(t *testing.T) {
			inner := memory(nil)
			s := seal(t, inner, sealstore.Config{Keys: c.keys})
			noted(t, s, create(t, s, secret()))
			if stored := spelled(t, inner); strings.Count(stored, "secret") != c.plain {
				t.Errorf("the store holds secrets:\n%s", stored)
			}
			if open := spelled(t, s); strings.Count(open, "secret") != 2*2+8+1 { // names of record and history, what is in the record, the history's evidence
				t.Errorf("opened, %d secrets are found:\n%s", strings.Count(open, "secret"), open)
			}
			got, err := s.Get(t.Context(), id)
			want := secret()
			want.Head, want.DueIn = got.Head, 0
			want.Meta, want.Note = secret().Meta, secret().Note
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// What operators and keepers look for is found, whatever is hashed.
func TestSearch(t *testing.T) {
	inner := memory(nil)
	s := seal(t, inner, sealstore.Config{Keys: hashedNames()})
	noted(t, s, create(t, s, secret()))
	other := secret()
	other.Scope, other.DownstreamID, other.DueIn = "other", "", 0
	create(t, s, other)
	l, _ := stet.As[stet.Lister](s)
	c, _ := stet.As[stet.Counter](s)
	f, _ := stet.As[stet.Finder](s)
	h, _ := stet.As[stet.Historian](s)
	heads, _, err := l.List(t.Context(), stet.Query{Scope: id.Scope})
	if err != nil || len(heads) != 1 || heads[0].ID != id || heads[0].Meta["name-secret"] != "value-secret" {
		t.Errorf("List by scope: %+v, %v", heads, err)
	}
	if n, err := c.Count(t.Context(), stet.Query{Scope: "other"}); err != nil || n != 1 {
		t.Errorf("Count by scope: %d, %v", n, err)
	}
	if heads, err := f.Find(t.Context(), "", "ch_1"); err != nil || len(heads) != 1 || heads[0].ID != id {
		t.Errorf("Find: %+v, %v", heads, err)
	}
	if heads, _, err := s.Due(t.Context(), stet.Query{Scope: "other"}); err != nil || len(heads) != 1 || heads[0].ID != other.ID {
		t.Errorf("Due: %+v, %v", heads, err)
	}
	changes, _, err := h.History(t.Context(), stet.HistoryQuery{ID: id})
	if err != nil || len(changes) != 1 || changes[0].ID != id || changes[0].Note != *secret().Note {
		t.Errorf("History: %+v, %v", changes, err)
	}
}

// The same key in two scopes has nothing in common in the store.
func TestHashedNamesCannotBeLinked(t *testing.T) {
	inner := memory(nil)
	s := seal(t, inner, sealstore.Config{Keys: hashedNames()})
	for _, scope := range []stet.Scope{"a", "b"} {
		r := secret()
		r.Scope = scope
		create(t, s, r)
	}
	heads, _, err := inner.List(t.Context(), stet.Query{})
	if err != nil || len(heads) != 2 || heads[0].Key == heads[1].Key || heads[0].Scope == heads[1].Scope {
		t.Errorf("%d records share a name: %v", len(heads), err)
	}
}

func rotated() sealstore.Keys {
	return sealstore.Keys{Primary: "k2", Keys: map[string][]byte{"k1": key(1), "k2": key(2)}}
}

func TestRotation(t *testing.T) {
	inner := memory(nil)
	old := create(t, seal(t, inner, sealstore.Config{Keys: oneKey()}), secret())
	both := seal(t, inner, sealstore.Config{Keys: rotated()})
	got, err := both.Get(t.Context(), id)
	if err != nil || string(got.Response.Body) != "body-secret" {
		t.Fatalf("what the old key sealed is not read: %v", err)
	}
	noted(t, both, old) // the head is sealed anew, the body stays as it is
	if got, err = both.Get(t.Context(), id); err != nil || string(got.Response.Body) != "body-secret" {
		t.Fatalf("a record of two keys is not read: %v", err)
	}
	fresh := secret()
	fresh.Key = "fresh"
	create(t, both, fresh)

	only := seal(t, inner, sealstore.Config{Keys: sealstore.Keys{Primary: "k2", Keys: map[string][]byte{"k2": key(2)}}})
	if _, err := only.Get(t.Context(), fresh.ID); err != nil {
		t.Errorf("what the new key sealed needs the old one: %v", err)
	}
	_, err = only.Get(t.Context(), id)
	if !errors.Is(err, stet.ErrCorrupt) || !strings.Contains(err.Error(), `key "k1"`) {
		t.Errorf("without the old key: %v", err)
	}
	again := secret()
	again.Version = 99
	if _, err := only.Create(t.Context(), again); !errors.Is(err, stet.ErrCorrupt) || errors.Is(err, stet.ErrExists) {
		t.Errorf("a retry of what cannot be opened: %v", err)
	}
}

// A head whose key is gone is seen and reaped, and not written over.
func TestUnopenedHeads(t *testing.T) {
	for name, names := range map[string][]byte{"plain names": nil, "hashed names": key(9)} {
		t.Run(name, func(t *testing.T) {
			inner := memory(nil)
			with := func(id string, b byte) stet.Store {
				return seal(t, inner, sealstore.Config{Keys: sealstore.Keys{Primary: id, Keys: map[string][]byte{id: key(b)}, Names: names}})
			}
			r := secret()
			r.DueIn = 0
			create(t, with("k1", 1), r)
			s := with("k2", 2)
			heads, _, err := s.Due(t.Context(), stet.Query{})
			if err != nil || len(heads) != 1 || heads[0].State != stet.Completed || strings.Contains(fmt.Sprint(heads[0].Meta), "secret") {
				t.Fatalf("Due: %+v, %v", heads, err)
			}
			next := heads[0]
			next.Version = 5
			if _, err := s.Replace(t.Context(), heads[0].Version, next, nil); !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("written over: %v", err)
			}
			if err := s.Delete(t.Context(), heads[0].ID, 77); !errors.Is(err, stet.ErrStale) {
				t.Errorf("deleted with another version: %v", err)
			}
			if err := s.Delete(t.Context(), heads[0].ID, heads[0].Version); err != nil {
				t.Errorf("not to be reaped: %v", err)
			}
		})
	}
}

// tamper changes what is stored under a record's name.
func tamper(t *testing.T, inner stet.Store, id stet.ID, change func(r *stet.Record)) {
	t.Helper()
	r, err := inner.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	prev := r.Version
	r.Progress = slices.Clone(r.Progress)
	r.Meta = maps.Clone(r.Meta)
	if r.Note != nil {
		r.Note = new(*r.Note)
	}
	r.DueIn = time.Hour
	change(&r)
	if _, err := inner.Replace(t.Context(), prev, r.Head, &r.Body); err != nil {
		t.Fatal(err)
	}
}

func TestTamperingIsRefusedForItsKeyAlone(t *testing.T) {
	other := secret()
	other.Key = "other-secret"
	for name, change := range map[string]func(r, other *stet.Record){
		"a bit of the body":        func(r, _ *stet.Record) { r.Progress[len(r.Progress)-20] ^= 1 },
		"a bit of the nonce":       func(r, _ *stet.Record) { r.Progress[12] ^= 1 },
		"the flag":                 func(r, _ *stet.Record) { r.Progress[7] ^= 1 },
		"an unknown flag":          func(r, _ *stet.Record) { r.Progress[7] ^= 4 },
		"the format":               func(r, _ *stet.Record) { r.Progress[5]++ },
		"the purpose":              func(r, _ *stet.Record) { r.Progress[6]++ },
		"the length of the id":     func(r, _ *stet.Record) { r.Progress[8] = 255 },
		"an id nobody would write": func(r, _ *stet.Record) { r.Progress[9] = '\n' },
		"a torn body":              func(r, _ *stet.Record) { r.Progress = r.Progress[:len(r.Progress)/2] },
		"no body":                  func(r, _ *stet.Record) { r.Body = stet.Body{} },
		"a body that is not sealed": func(r, _ *stet.Record) {
			r.Body = stet.Body{Response: &stet.Response{Status: 200, Body: []byte("forged")}}
		},
		"a response beside the seal": func(r, _ *stet.Record) { r.Response = &stet.Response{Status: 200} },
		"another record's body":      func(r, o *stet.Record) { r.Body = o.Body },
		"another fingerprint":        func(r, _ *stet.Record) { r.Fingerprint.Sum[0]++ },
		"another recipe":             func(r, _ *stet.Record) { r.Fingerprint.Recipe += " " },
		"a bit of Meta":              func(r, _ *stet.Record) { flip(r.Meta, 40) },
		"another record's Meta":      func(r, o *stet.Record) { r.Meta = o.Meta },
		"Meta that is not sealed":    func(r, _ *stet.Record) { r.Meta = map[string]string{"a": "b"} },
		"Meta of another version":    func(r, _ *stet.Record) { r.Version++ },
		"evidence that is another's": func(r, o *stet.Record) { r.Note.Evidence = o.Note.Evidence },
		"evidence in plain":          func(r, _ *stet.Record) { r.Note.Evidence = "forged" },
		"a seal that is no base64":   func(r, _ *stet.Record) { r.Note.Evidence += "\x00" },
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory(nil)
			s := seal(t, inner, sealstore.Config{Keys: oneKey()})
			create(t, s, secret())
			create(t, s, other)
			theirs, err := inner.Get(t.Context(), other.ID)
			if err != nil {
				t.Fatal(err)
			}
			tamper(t, inner, id, func(r *stet.Record) { change(r, &theirs) })
			if got, err := s.Get(t.Context(), id); !errors.Is(err, stet.ErrCorrupt) || got.Version != 0 {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := s.Get(t.Context(), other.ID); err != nil {
				t.Errorf("the neighbour: %v", err)
			}
		})
	}
}

// flip changes one bit of a sealed Meta, by another character of base64.
func flip(meta map[string]string, at int) {
	for k, v := range meta {
		b := []byte(v)
		if b[at]++; b[at] > 'y' {
			b[at] = 'A'
		}
		meta[k] = string(b)
	}
}

// An engine tells its client that the store did not settle it, and runs nothing (SF-06).
func TestTamperedKeyNeverRuns(t *testing.T) {
	inner := memory(nil)
	s := seal(t, inner, sealstore.Config{Keys: oneKey()})
	create(t, s, secret())
	tamper(t, inner, id, func(r *stet.Record) { r.Progress[len(r.Progress)-1] ^= 1 })
	engine, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := engine.Begin(t.Context(), stet.Request{ID: id}); !errors.Is(err, stet.ErrUnsettled) || !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("%v, %v", d.Verdict, err)
	}
	if d, err := engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: id.Scope, Key: "other"}}); err != nil || d.Verdict != stet.Execute {
		t.Errorf("another key: %v, %v", d.Verdict, err)
	}
}

func TestPlainRecords(t *testing.T) {
	inner := memory(nil)
	made := create(t, inner, secret())
	s := seal(t, inner, sealstore.Config{Keys: oneKey()})
	if _, err := s.Get(t.Context(), id); !errors.Is(err, stet.ErrCorrupt) || !errors.Is(err, sealstore.ErrPlain) {
		t.Errorf("a record that is not sealed: %v", err)
	}
	accepting := seal(t, inner, sealstore.Config{Keys: oneKey(), AcceptPlain: true})
	got, err := accepting.Get(t.Context(), id)
	if err != nil || string(got.Response.Body) != "body-secret" || got.Meta["name-secret"] == "" || got.Note.Evidence != "evidence-secret" {
		t.Fatalf("accepted: %+v, %v", got, err)
	}
	h := made.Head
	h.Version, h.DueIn = 2, time.Hour
	if _, err := accepting.Replace(t.Context(), 1, h, &got.Body); err != nil {
		t.Fatal(err)
	}
	if stored := spelled(t, inner); strings.Contains(stored, "body-secret") || strings.Contains(stored, "evidence-secret") && !strings.Contains(stored, "stet.sealed") {
		t.Errorf("what is written is not sealed:\n%s", stored)
	}
	if _, err := s.Get(t.Context(), id); err != nil {
		t.Errorf("once it was written: %v", err)
	}
	if _, err := sealstore.New(inner, sealstore.Config{Keys: hashedNames(), AcceptPlain: true}); err == nil {
		t.Error("plain records are accepted where names are hashed")
	}
}

// answers is a store that answers with a record of its own choice.
type answers struct {
	stet.Store
	record stet.Record
}

func (a answers) Get(context.Context, stet.ID) (stet.Record, error) { return a.record, nil }

func TestAnotherRecordIsNoAnswer(t *testing.T) {
	inner := memory(nil)
	s := seal(t, inner, sealstore.Config{Keys: hashedNames()})
	create(t, s, secret())
	heads, _, err := inner.List(t.Context(), stet.Query{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := inner.Get(t.Context(), heads[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	liar := seal(t, answers{inner, r}, sealstore.Config{Keys: hashedNames()})
	if _, err := liar.Get(t.Context(), id); err != nil {
		t.Errorf("the record itself: %v", err)
	}
	if _, err := liar.Get(t.Context(), stet.ID{Scope: id.Scope, Key: "other"}); !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("another record: %v", err)
	}
}

func TestCheck(t *testing.T) {
	otherNames := oneKey()
	otherNames.Names = key(8)
	for name, c := range map[string]struct {
		fill, open sealstore.Keys
		plain      bool
		want       error
	}{
		"plain":                        {fill: oneKey(), open: rotated()},
		"hashed":                       {fill: hashedNames(), open: hashedNames()},
		"hashed since today":           {fill: oneKey(), open: hashedNames(), want: sealstore.ErrNames},
		"hashed no more":               {fill: hashedNames(), open: oneKey(), want: sealstore.ErrNames},
		"hashed with another key":      {fill: hashedNames(), open: otherNames, want: sealstore.ErrNames},
		"not sealed, and to be hashed": {plain: true, open: hashedNames(), want: sealstore.ErrNames},
		"not sealed":                   {plain: true, open: oneKey(), want: sealstore.ErrPlain},
		"other bytes":                  {fill: oneKey(), open: otherBytes(oneKey()), want: sealstore.ErrKey}, // S11
		"other bytes, hashed":          {fill: hashedNames(), open: otherBytes(hashedNames()), want: sealstore.ErrKey},
		"a key that is gone":           {fill: oneKey(), open: sealstore.Keys{Primary: "k2", Keys: map[string][]byte{"k2": key(2)}}},
	} {
		inner := memory(nil)
		var s stet.Store = inner
		if !c.plain {
			s = seal(t, inner, sealstore.Config{Keys: c.fill})
		}
		opened := seal(t, inner, sealstore.Config{Keys: c.open})
		if err := sealstore.Check(t.Context(), opened); err != nil {
			t.Errorf("%s: an empty store: %v", name, err)
		}
		create(t, s, secret())
		if err := sealstore.Check(t.Context(), opened); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		err := sealstore.Check(t.Context(), inner)
		if sealed := errors.Is(err, sealstore.ErrSealed); sealed == c.plain || err != nil && !sealed {
			t.Errorf("%s, opened without keys: %v", name, err)
		}
	}
	if err := sealstore.Check(t.Context(), memory(nil)); err != nil {
		t.Errorf("an empty store: %v", err)
	}
}

// otherBytes are keys of the same ids.
func otherBytes(k sealstore.Keys) sealstore.Keys {
	k.Keys = map[string][]byte{k.Primary: key(9)}
	return k
}

// One damaged record among others says nothing of its key, nor do records of a key that was
// dropped.
func TestCheckLeavesDamageToItsRecord(t *testing.T) { // S11
	inner := memory(nil)
	s := seal(t, inner, sealstore.Config{Keys: rotated()})
	for i := range 3 {
		r := secret()
		r.Key = stet.Key(fmt.Sprint("k", i))
		got := create(t, s, r)
		if i < 2 {
			continue
		}
		stored, err := inner.Get(t.Context(), got.ID)
		if err != nil {
			t.Fatal(err)
		}
		body := stet.Body{Progress: bytes.Clone(stored.Progress)}
		body.Progress[len(body.Progress)-1]++
		h := stored.Head
		h.Version++
		if _, err := inner.Replace(t.Context(), stored.Version, h, &body); err != nil {
			t.Fatal(err)
		}
	}
	if err := sealstore.Check(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// A sealed record without Meta shows its seal in its body alone.
func TestCheckPlainLooksInside(t *testing.T) {
	inner := memory(nil)
	r := secret()
	r.Meta, r.Note = nil, nil
	create(t, seal(t, inner, sealstore.Config{Keys: oneKey()}), r)
	if err := sealstore.Check(t.Context(), inner); !errors.Is(err, sealstore.ErrSealed) {
		t.Errorf("%v", err)
	}
}

func TestReservedName(t *testing.T) {
	s := seal(t, memory(nil), sealstore.Config{Keys: oneKey()})
	r := secret()
	r.Meta = map[string]string{"stet.sealed": "x"}
	if _, err := s.Create(t.Context(), r); err == nil {
		t.Error("the reserved name is taken")
	}
}

// binding joins transactions: what is written in one goes to bound.
type binding struct {
	stet.Store
	bound stet.Store
}

func (b binding) Bind(tx any) (stet.Store, error) {
	if tx == nil {
		return nil, stet.ErrForeignTx
	}
	return b.bound, nil
}

// Nothing is written past the encryption, in no transaction either.
func TestBoundStoreSeals(t *testing.T) {
	within := memory(nil)
	s := seal(t, binding{memory(nil), within}, sealstore.Config{Keys: hashedNames()})
	b, ok := stet.As[stet.Binder](s)
	if !ok {
		t.Fatal("no Binder is found")
	}
	if _, err := b.Bind(nil); !errors.Is(err, stet.ErrForeignTx) {
		t.Errorf("%v", err)
	}
	bound, err := b.Bind("tx")
	if err != nil {
		t.Fatal(err)
	}
	noted(t, bound, create(t, bound, secret()))
	if stored := spelled(t, within); strings.Contains(stored, "secret") {
		t.Errorf("written in a transaction:\n%s", stored)
	}
	if got, err := bound.Get(t.Context(), id); err != nil || string(got.Response.Body) != "body-secret" {
		t.Errorf("%v", err)
	}
}

// An ability this package does not know is not found: it might write past the seal.
func TestUnknownAbilitiesAreNotFound(t *testing.T) {
	s := seal(t, memory(nil), sealstore.Config{Keys: oneKey()})
	if _, ok := stet.As[interface{ Len() int }](s); ok {
		t.Error("found")
	}
	if _, ok := stet.As[*filestore.Store](seal(t, &filestore.Store{}, sealstore.Config{Keys: oneKey()})); ok {
		t.Error("the store itself is found")
	}
}

func TestKeysAreHidden(t *testing.T) {
	k := hashedNames()
	doc, err := json.Marshal(struct{ K sealstore.Keys }{k})
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "keys", k)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "keys", k)
	if n := strings.Count(log.String(), "[keys]"); n != 2 {
		t.Errorf("a log shows %d of 2 as [keys]: %s", n, log.String())
	}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %x", k, k, k), string(doc), log.String()} {
		if strings.Contains(text, "\x01") || strings.Contains(text, "0101") || strings.Contains(text, "AQEB") || strings.Contains(text, "0x1") {
			t.Errorf("a key is shown: %s", text)
		}
	}
	if err != nil || !bytes.Contains(doc, []byte("[keys]")) {
		t.Errorf("%s, %v", doc, err)
	}
}
