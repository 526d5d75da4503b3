package console_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// A service puts the console in front of its admin API, on a listener for operators.
func Example() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	api := admin.New(engine, admin.Config{
		Config: operate.Config{Title: "staging"}, Tokens: []admin.Token{admin.NewToken("kim", "a-long-random-secret", operate.Operator)},
	})
	operators := console.New(api, console.Config{})

	for _, path := range []string{"/unknown", "/login", "/livez"} {
		w := httptest.NewRecorder()
		operators.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		fmt.Println(path, w.Code, cmp.Or(w.Header().Get("Location"), "here"))
	}
	// Output:
	// /unknown 303 /login?next=%2Funknown
	// /login 200 here
	// /livez 200 here
}
