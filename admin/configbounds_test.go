package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// New has no error: a handler with numbers that cannot be meant answers nothing but that.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	valid := func() Config {
		return Config{Tokens: []Token{NewToken("ops", "a secret of some length", operate.Viewer)}}
	}
	bounds.Refuses(t, configBounds, valid, func(c Config) error {
		w := httptest.NewRecorder()
		New(e, c).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
		if w.Code == http.StatusOK {
			return nil
		}
		if err := configBounds.Check(&c); err == nil || w.Code != http.StatusInternalServerError || w.Body.String() != err.Error()+"\n" {
			t.Errorf("it answers %d, %q: %v", w.Code, w.Body, err)
		}
		return configBounds.Check(&c)
	})
}

// A number out of bounds is the caller's mistake, and not the store's.
func TestNumbersOfRequestsHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/keys?older_than_s=4000000000", nil)
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	New(e, Config{}).ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "older_than_s: it is a number of seconds, not negative, and not over a hundred years") {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
}
