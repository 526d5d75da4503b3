package recipes

import (
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
)

// FiberApp guards an app that net/http serves.
func FiberApp(guard func(http.Handler) http.Handler, app *fiber.App) http.Handler {
	return guard(adaptor.FiberApp(app)) // served by net/http
}
