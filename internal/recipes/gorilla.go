package recipes

import (
	"net/http"

	"github.com/gorilla/mux"
)

// Gorilla guards the routes of a router.
func Gorilla(guard func(http.Handler) http.Handler) *mux.Router {
	r := mux.NewRouter()
	r.Use(guard)
	return r
}
