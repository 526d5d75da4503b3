package recipes

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// Echo5 is Echo for version 5.
func Echo5(guard func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			request, outer := c.Request(), c.Response()
			guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { c.SetRequest(request); c.SetResponse(outer) }()
				inner := echo.NewResponse(w, c.Logger())
				c.SetRequest(r)
				c.SetResponse(inner)
				if err := next(c); err != nil {
					c.Echo().HTTPErrorHandler(c, err)
				} else if !inner.Committed {
					inner.WriteHeader(http.StatusOK)
				}
			})).ServeHTTP(outer, request)
			return nil
		}
	}
}
