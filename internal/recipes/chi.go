package recipes

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Chi guards the routes of a router. Middleware that recovers from panics belongs before the guard.
func Chi(guard func(http.Handler) http.Handler) *chi.Mux {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, guard)
	return r
}
