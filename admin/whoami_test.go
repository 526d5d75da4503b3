package admin_test

import (
	"testing"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// A program learns whose token it has, and what it may do, before it offers anything.
func TestWhoami(t *testing.T) {
	d := newDesk(t, admin.Config{Who: "kim@desk"}, nil)
	if doc := d.doc("/api/v1/whoami"); doc["name"] != "kim@desk" || doc["role"] != "admin" || doc["no_token"] != true || doc["scopes"] != nil {
		t.Errorf("%v", doc)
	}
	one := admin.NewToken("one", "token-of-acme", operate.Operator)
	one.Scopes = []string{"acme"}
	d = newDesk(t, admin.Config{Tokens: only(one)}, nil)
	d.refused("/api/v1/whoami", 401, "unauthenticated")
	d.token = "token-of-acme"
	if doc := d.doc("/api/v1/whoami"); doc["name"] != "one" || doc["role"] != "operator" || doc["no_token"] != false || len(doc["scopes"].([]any)) != 1 {
		t.Errorf("%v", doc)
	}
}
