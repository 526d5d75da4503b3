package recipes

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Echo guards the handlers that follow it: their errors are answered before the guard learns of the
// answer.
func Echo(guard func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			request, outer := c.Request(), c.Response()
			guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { c.SetRequest(request); c.SetResponse(outer) }()
				inner := echo.NewResponse(w, c.Echo())
				c.SetRequest(r)
				c.SetResponse(inner)
				if err := next(c); err != nil {
					c.Error(err)
				} else if !inner.Committed {
					inner.WriteHeader(http.StatusOK)
				}
			})).ServeHTTP(outer, request)
			return nil
		}
	}
}
