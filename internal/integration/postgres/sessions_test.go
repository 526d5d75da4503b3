package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/pgxstore"
)

// wrongSettings are settings that a role, a database or an address may have, each with what a store
// that was opened on a prepared pool has instead.
var wrongSettings = map[string][2]string{
	"client_encoding":               {"LATIN1", "UTF8"},
	"standard_conforming_strings":   {"off", "on"},
	"jit":                           {"on", "off"},
	"DateStyle":                     {"German", "ISO, MDY"},
	"TimeZone":                      {"Asia/Kathmandu", "UTC"},
	"statement_timeout":             {"250ms", "0"},
	"default_transaction_isolation": {"serializable", "read committed"},
	"default_transaction_read_only": {"on", "off"},
	"client_min_messages":           {"error", "notice"},
	"bytea_output":                  {"escape", "hex"},
	"array_nulls":                   {"off", "on"},
	"search_path":                   {"elsewhere", `"$user", public`},
}

// zurich is a name that LATIN1 writes in other bytes.
const zurich = "Zürich"

// user makes a role that may do everything in the database, and returns its address.
func user(t *testing.T, address, name string) string {
	t.Helper()
	execute(t, connected(t, address), "DROP ROLE IF EXISTS "+name, "CREATE ROLE "+name+" LOGIN SUPERUSER")
	return as(t, address, name)
}

func as(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(name)
	return u.String()
}

// used has a store do what an engine does, and one key again that it has made.
func used(t *testing.T, s stet.Store) error {
	t.Helper()
	if _, err := s.Create(within(t, 30*time.Second), running(zurich)); err == nil {
		t.Error("a key is new a second time")
	} else if !errors.Is(err, stet.ErrExists) {
		return err
	}
	return usable.Prove(within(t, 30*time.Second), s, true)
}

// Whatever sessions are given by a role, a database or an address: a store on a prepared pool works
// as before, and one on another pool works or says what is wrong. None takes a key for new that is
// there (S02, S18).
func TestSessionSettings(t *testing.T) {
	for name, value := range wrongSettings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := database(t, address(t), t.Name())
			role := "stet_" + strings.ToLower(name)
			admin, base := connected(t, direct), user(t, direct, role)
			create(t, opened(t, direct, pgxstore.Config{}), zurich)
			execute(t, admin, "CREATE SCHEMA elsewhere")
			where := "DATABASE " + admin.Config().Database
			for by, c := range map[string][2]string{ // how it is set, and set back
				"role":     {"ALTER ROLE " + role + " SET ", "ALTER ROLE " + role + " RESET "},
				"database": {"ALTER " + where + " SET ", "ALTER " + where + " RESET "},
				"address":  {},
			} {
				s := opened(t, base, pgxstore.Config{})
				plain := pool(t, base)
				other, err := pgxstore.Open(t.Context(), plain, pgxstore.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if by == "address" {
					if name == "search_path" { // it would be another store
						continue
					}
					s = opened(t, with(t, base, name, value[0]), pgxstore.Config{})
					plain = pool(t, with(t, base, name, value[0]))
				} else {
					execute(t, admin, c[0]+name+" = '"+value[0]+"'")
					s.pool.Reset()
					plain.Reset()
				}
				if err := used(t, s); err != nil {
					t.Errorf("by %s: %v", by, err)
				}
				var is string
				if err := s.pool.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&is); err != nil || is != value[1] {
					t.Errorf("by %s: it is %q, %v, want %q", by, is, err, value[1])
				}
				if by != "address" {
					sayWhatIsWrong(t, name, other)
				}
				if again, err := pgxstore.Open(t.Context(), plain, pgxstore.Config{}); err == nil {
					sayWhatIsWrong(t, name, again)
					_ = again.Close()
				} else if !says(err, name) {
					t.Errorf("by %s: Open: %v", by, err)
				}
				_ = other.Close()
				if by != "address" {
					execute(t, admin, c[1]+name)
				}
			}
		})
	}
}

// sayWhatIsWrong uses a store whose sessions have a setting that it did not choose.
func sayWhatIsWrong(t *testing.T, name string, s stet.Store) {
	t.Helper()
	if err := used(t, s); err != nil && !says(err, name) {
		t.Errorf("%s: %v", name, err)
	}
}

// says reports whether an error leads to the setting.
func says(err error, name string) bool {
	for _, text := range []string{name, map[string]string{
		"statement_timeout": "57014", "standard_conforming_strings": "array_nulls", "search_path": "42P01",
	}[name]} {
		if text != "" && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// A pooler in transaction mode gives the connections that it has the settings that it knows of;
// what it does not know stays as it is, for all its clients.
func TestSessionSettingsThroughPooler(t *testing.T) { // S02
	addr := pooler(t)
	direct := database(t, address(t), t.Name())
	create(t, opened(t, direct, pgxstore.Config{}), zurich)
	admin := connected(t, direct)
	execute(t, admin, fmt.Sprintf("ALTER DATABASE %s SET client_encoding = 'LATIN1'", admin.Config().Database),
		fmt.Sprintf("ALTER DATABASE %s SET jit = on", admin.Config().Database))
	s := opened(t, through(t, addr, direct, "exec"), pgxstore.Config{})
	for range 20 {
		if err := used(t, s); err != nil {
			t.Error(err)
		}
	}
	var jit string
	if err := s.pool.QueryRow(t.Context(), "SHOW jit").Scan(&jit); err != nil || jit != "on" {
		t.Errorf("the session of all clients has jit %s, %v", jit, err)
	}
}
