package admin

import (
	_ "embed"
	"net/http"
)

// openAPIDocument is written by a test from the routes and the types of their documents, so that it
// says what they are.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI answers GET /openapi.json. It is as public as the project.
func (h *handler) openAPI(*call) (any, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPIDocument)
	}), nil
}
