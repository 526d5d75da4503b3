package recipes

import (
	"net/http"

	"github.com/gorilla/mux"
)

func Gorilla(guard func(http.Handler) http.Handler) *mux.Router {
	r := mux.NewRouter()
	r.Use(guard)
	return r
}
