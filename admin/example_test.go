package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// An operator looks at what is stored, on a listener apart from the one for clients. A service
// calls http.ListenAndServe with an address on loopback.
func Example() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	operators := httptest.NewServer(admin.New(engine, admin.Config{
		Tokens: []admin.Token{admin.NewToken("kim", "a-long-random-secret", operate.Viewer)},
	}))
	defer operators.Close()

	for _, token := range []string{"", "a-long-random-secret"} {
		req, err := http.NewRequest(http.MethodGet, operators.URL+"/api/v1/keys?state=unknown", http.NoBody)
		if err != nil {
			panic(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			fmt.Println(res.Status)
			continue
		}
		fmt.Println(res.Status, strings.TrimSpace(string(body)))
	}
	// Output:
	// 401 Unauthorized
	// 200 OK {"keys":[],"next_cursor":""}
}
