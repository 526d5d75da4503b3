package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// sited is a store whose identity a test sets.
type sited struct {
	*memstore.Store
	*storeid.Gate
	id stet.Identity
}

func newSited(t *testing.T) *sited {
	s := &sited{Store: memstore.New(memstore.Config{}), id: stet.Identity{ID: "st_first", Mark: 7}}
	s.Gate = &storeid.Gate{
		Look: func(context.Context) (stet.Identity, error) { return s.id, nil },
		Make: func(_ context.Context, _, next stet.Identity) error { s.id = next; return nil },
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sited) Append(ctx context.Context, c stet.Change) error {
	if err := s.Write(ctx); err != nil {
		return err
	}
	return s.Store.Append(ctx, c)
}

func TestTheStoreIsAcceptedByName(t *testing.T) { // S-I
	s := newSited(t)
	d := newDesk(t, admin.Config{Who: "kim@desk"}, s)
	if doc := d.doc("/api/v1/store"); doc["id"] != "st_first" || doc["mark"] != 7.0 || doc["foreign"] != false || doc["why"] != nil {
		t.Errorf("%v", doc)
	}
	accept := func(body string) (int, string) { return d.change("POST", "/api/v1/store/accept", body) }
	if status, body := accept(`{"id": "st_first", "reason": "INC-1"}`); status != 409 || !strings.Contains(body, "nothing to accept") {
		t.Errorf("nothing is foreign: %d %s", status, body)
	}
	s.id = stet.Identity{ID: "st_first", Mark: 3}
	doc := d.doc("/api/v1/store")
	if doc["foreign"] != true || doc["mark"] != 3.0 || doc["known"].(map[string]any)["mark"] != 7.0 || !strings.Contains(doc["why"].(string), "set back") {
		t.Errorf("%v", doc)
	}
	for body, want := range map[string]int{
		`{"reason": "INC-1"}`:                   400,
		`{"id": "st_first"}`:                    400,
		`{"id": "st_first", "reason": " "}`:     400,
		`{"id": null, "reason": "x"}`:           400,
		`{"id": "st_other", "reason": "INC-1"}`: 409,
		`{"id": "", "reason": "INC-1"}`:         409,
	} {
		if status, text := accept(body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if s.id.Mark != 3 {
		t.Fatalf("it was accepted: %+v", s.id)
	}
	s.Make = func(context.Context, stet.Identity, stet.Identity) error {
		return fmt.Errorf("%w: the file was moved away", stet.ErrForeign)
	}
	if status, text := accept(`{"id": "st_first", "reason": "INC-1"}`); status != 409 || !strings.Contains(text, "the file was moved away.") {
		t.Errorf("what cannot be accepted: %d %s", status, text)
	}
	s.Make = func(_ context.Context, _, next stet.Identity) error { s.id = next; return nil }
	status, text := accept(`{"id": "st_first", "reason": "INC-1", "evidence": "restored from Tuesday"}`)
	var now operate.StoreIdentity
	if err := json.Unmarshal([]byte(text), &now); err != nil || status != 200 || now.Foreign || now.ID == "st_first" || len(now.Replaces) != 1 || now.Replaces[0] != "st_first" {
		t.Errorf("%d %s", status, text)
	}
	got := d.entries("")
	if len(got) != 1 || got[0].Action != "store-accept" || got[0].Who != "kim@desk" || got[0].Reason != "INC-1" ||
		!strings.Contains(got[0].Evidence, "set back") || !strings.Contains(got[0].Evidence, now.ID) || !strings.Contains(got[0].Evidence, "Tuesday") {
		t.Errorf("%+v", got)
	}
}

func TestOnlyAdminsAcceptAStore(t *testing.T) {
	s := newSited(t)
	one := admin.NewToken("one", "token-of-acme", operate.Admin)
	one.Scopes = []string{"acme"}
	d := newDesk(t, admin.Config{Tokens: []admin.Token{admin.NewToken("otto", "token-of-otto", operate.Operator), one}}, s)
	d.token = "token-of-otto"
	d.doc("/api/v1/store")
	if status, _ := d.change("POST", "/api/v1/store/accept", `{"id": "st_first", "reason": "x"}`); status != 403 {
		t.Errorf("an operator: %d", status)
	}
	d.token = "token-of-acme"
	d.refused("/api/v1/store", 404, "not-found")
	if status, _ := d.change("POST", "/api/v1/store/accept", `{"id": "st_first", "reason": "x"}`); status != 404 {
		t.Errorf("an admin of one scope: %d", status)
	}
	d = newDesk(t, admin.Config{}, nil)
	d.refused("/api/v1/store", 501, "not-supported")
}

// A proof that the store can be written, which each start makes, is no operator's deed.
func TestProofsAreShownOnlyWhereTheyAreAskedFor(t *testing.T) { // S08
	s := memstore.New(memstore.Config{})
	d := newDesk(t, admin.Config{}, s)
	if err := usable.Prove(t.Context(), s, true); err != nil {
		t.Fatal(err)
	}
	if got := d.entries(""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := d.entries("action=proof"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
