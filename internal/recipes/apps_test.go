package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"

	"connectrpc.com/connect"
	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	fiberrecover "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	echo5middleware "github.com/labstack/echo/v5/middleware"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stet-dev/stet"
)

// notExecuted states it where there is a claim.
func notExecuted(ctx context.Context) {
	if c := stet.ClaimFrom(ctx); c != nil {
		c.NotExecuted("declined-before-charge")
	}
}

func ginApp(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		return served(t, ginRouter(s))
	}
	return served(t, ginRouter(s, Gin(guard)))
}

// answerErrors is the usual way to turn errors into answers under gin.
func answerErrors(c *gin.Context) {
	if c.Next(); len(c.Errors) > 0 {
		c.JSON(c.Errors.Last().Meta.(int), gin.H{"error": c.Errors.Last().Error()})
	}
}

func ginRouter(s *service, use ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(gin.RecoveryWithWriter(io.Discard))
	r.Use(func(c *gin.Context) {
		if c.Request.URL.Path == accepted {
			c.Status(http.StatusAccepted)
		}
	})
	r.Use(use...)
	r.Use(answerErrors)
	fail := func(path string, status int) {
		r.POST(path, func(c *gin.Context) { s.effect(path); _ = c.Error(errors.New("no money")).SetMeta(status) })
	}
	fail(declined, http.StatusPaymentRequired)
	fail(busy, http.StatusTooManyRequests)
	r.POST(charge, func(c *gin.Context) {
		c.Header("X-Charge", "yes")
		c.JSON(http.StatusCreated, gin.H{"id": s.effect(charge)})
	})
	r.POST(released, func(c *gin.Context) {
		s.effect(released)
		notExecuted(c.Request.Context())
		c.AbortWithStatus(http.StatusServiceUnavailable)
	})
	r.POST(silent, func(*gin.Context) { s.effect(silent) })
	r.POST(status, func(c *gin.Context) { s.effect(status); c.Status(http.StatusNoContent) })
	r.POST(slow, func(c *gin.Context) {
		s.effect(slow)
		<-c.Request.Context().Done()
		_ = c.Error(errors.New("too slow")).SetMeta(http.StatusInternalServerError)
	})
	r.POST(panics, func(*gin.Context) { s.effect(panics); panic("boom") })
	r.POST(dropped, func(*gin.Context) { s.effect(dropped); panic(http.ErrAbortHandler) })
	r.POST(aborted, func(c *gin.Context) { s.effect(aborted); c.AbortWithStatus(http.StatusPaymentRequired) })
	r.POST(accepted, func(*gin.Context) { s.effect(accepted) })
	r.GET(reading, func(*gin.Context) {})
	return r
}

func echoApp(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		return served(t, echoRouter(s))
	}
	return served(t, echoRouter(s, Echo(guard)))
}

func echoRouter(s *service, use ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(echomiddleware.Recover())
	e.Use(use...)
	fail := func(path string, status int) {
		e.POST(path, func(echo.Context) error { s.effect(path); return echo.NewHTTPError(status, "no money") })
	}
	fail(declined, http.StatusPaymentRequired)
	fail(busy, http.StatusTooManyRequests)
	e.POST(charge, func(c echo.Context) error {
		c.Response().Header().Set("X-Charge", "yes")
		return c.JSON(http.StatusCreated, map[string]string{"id": s.effect(charge)})
	})
	e.POST(released, func(c echo.Context) error {
		s.effect(released)
		notExecuted(c.Request().Context())
		return echo.NewHTTPError(http.StatusServiceUnavailable)
	})
	e.POST(silent, func(echo.Context) error { s.effect(silent); return nil })
	e.POST(status, func(c echo.Context) error { s.effect(status); return c.NoContent(http.StatusNoContent) })
	e.POST(slow, func(c echo.Context) error {
		s.effect(slow)
		<-c.Request().Context().Done()
		return errors.New("too slow")
	})
	e.POST(panics, func(echo.Context) error { s.effect(panics); panic("boom") })
	e.POST(dropped, func(echo.Context) error { s.effect(dropped); panic(http.ErrAbortHandler) })
	e.POST(aborted, func(c echo.Context) error { s.effect(aborted); return c.NoContent(http.StatusPaymentRequired) })
	e.POST(accepted, func(echo.Context) error { s.effect(accepted); return nil })
	e.GET(reading, func(echo.Context) error { return nil })
	return e
}

func echo5App(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		return served(t, echo5Router(s))
	}
	return served(t, echo5Router(s, Echo5(guard)))
}

func echo5Router(s *service, use ...echo5.MiddlewareFunc) http.Handler {
	e := echo5.New()
	e.Use(echo5middleware.Recover())
	e.Use(use...)
	fail := func(path string, status int) {
		e.POST(path, func(*echo5.Context) error { s.effect(path); return echo5.NewHTTPError(status, "no money") })
	}
	fail(declined, http.StatusPaymentRequired)
	fail(busy, http.StatusTooManyRequests)
	e.POST(charge, func(c *echo5.Context) error {
		c.Response().Header().Set("X-Charge", "yes")
		return c.JSON(http.StatusCreated, map[string]string{"id": s.effect(charge)})
	})
	e.POST(released, func(c *echo5.Context) error {
		s.effect(released)
		notExecuted(c.Request().Context())
		return echo5.NewHTTPError(http.StatusServiceUnavailable, "")
	})
	e.POST(silent, func(*echo5.Context) error { s.effect(silent); return nil })
	e.POST(status, func(c *echo5.Context) error { s.effect(status); return c.NoContent(http.StatusNoContent) })
	e.POST(slow, func(c *echo5.Context) error {
		s.effect(slow)
		<-c.Request().Context().Done()
		return errors.New("too slow")
	})
	e.POST(panics, func(*echo5.Context) error { s.effect(panics); panic("boom") })
	e.POST(dropped, func(*echo5.Context) error { s.effect(dropped); panic(http.ErrAbortHandler) })
	e.POST(aborted, func(c *echo5.Context) error { s.effect(aborted); return c.NoContent(http.StatusPaymentRequired) })
	e.POST(accepted, func(*echo5.Context) error { s.effect(accepted); return nil })
	e.GET(reading, func(*echo5.Context) error { return nil })
	return e
}

// fiberServed is fiber on its own server.
func fiberServed(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	use := []any{fiberrecover.New()}
	if guard != nil {
		use = append(use, Fiber(guard))
	}
	return fiberListen(t, fiberRouter(s, use...))
}

func fiberListen(t *testing.T, app *fiber.App) string {
	l := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := errors.Join(app.Shutdown(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// fiberMounted is fiber on net/http's server, the guard before it.
func fiberMounted(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		guard = func(h http.Handler) http.Handler { return h }
	}
	return served(t, FiberApp(guard, fiberRouter(s)))
}

func fiberRouter(s *service, use ...any) *fiber.App {
	app := fiber.New()
	if len(use) > 0 { // else net/http's middleware does it
		app.Use(func(c fiber.Ctx) error { c.Set(outer, strconv.FormatInt(answers.Add(1), 10)); return c.Next() })
	}
	app.Use(accepted, func(c fiber.Ctx) error { c.Status(http.StatusAccepted); return c.Next() })
	for _, u := range use {
		app.Use(u)
	}
	fail := func(path string, status int) {
		app.Post(path, func(fiber.Ctx) error { s.effect(path); return fiber.NewError(status, "no money") })
	}
	fail(declined, http.StatusPaymentRequired)
	fail(busy, http.StatusTooManyRequests)
	app.Post(charge, func(c fiber.Ctx) error {
		c.Set("X-Charge", "yes")
		return c.Status(http.StatusCreated).JSON(fiber.Map{"id": s.effect(charge)})
	})
	app.Post(released, func(c fiber.Ctx) error {
		s.effect(released)
		if notExecuted(c.Context()); len(use) == 0 { // behind net/http there is no claim in sight
			c.Set("Stet-Outcome", "not-executed")
		}
		return fiber.NewError(http.StatusServiceUnavailable)
	})
	app.Post(silent, func(fiber.Ctx) error { s.effect(silent); return nil })
	app.Post(status, func(c fiber.Ctx) error { s.effect(status); return c.SendStatus(http.StatusNoContent) })
	app.Post(slow, func(c fiber.Ctx) error { s.effect(slow); <-c.Context().Done(); return errors.New("too slow") })
	app.Post(panics, func(fiber.Ctx) error { s.effect(panics); panic("boom") })
	app.Post(dropped, func(c fiber.Ctx) error {
		if s.effect(dropped); len(use) == 0 { // net/http has the connection
			panic(http.ErrAbortHandler)
		}
		return c.Drop()
	})
	app.Post(aborted, func(c fiber.Ctx) error { s.effect(aborted); return c.SendStatus(http.StatusPaymentRequired) })
	app.Post(accepted, func(fiber.Ctx) error { s.effect(accepted); return nil })
	app.Get(reading, func(fiber.Ctx) error { return nil })
	return app
}

func chiApp(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		guard = func(h http.Handler) http.Handler { return h }
	}
	r := Chi(guard)
	for path, h := range s.plain() {
		r.Post(path, h)
	}
	r.Get(reading, func(http.ResponseWriter, *http.Request) {})
	return served(t, r)
}

func gorillaApp(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		guard = func(h http.Handler) http.Handler { return h }
	}
	r := Gorilla(guard)
	for path, h := range s.plain() {
		r.HandleFunc(path, h).Methods(http.MethodPost)
	}
	r.HandleFunc(reading, func(http.ResponseWriter, *http.Request) {}).Methods(http.MethodGet)
	return served(t, r)
}

// plain are the handlers of net/http.
func (s *service) plain() map[string]http.HandlerFunc {
	fail := func(path string, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { s.effect(path); http.Error(w, "no money", status) }
	}
	return map[string]http.HandlerFunc{
		declined: fail(declined, http.StatusPaymentRequired),
		busy:     fail(busy, http.StatusTooManyRequests),
		charge: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Charge", "yes")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]string{"id": s.effect(charge)})
		},
		released: func(w http.ResponseWriter, r *http.Request) {
			s.effect(released)
			notExecuted(r.Context())
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		silent: func(http.ResponseWriter, *http.Request) { s.effect(silent) },
		status: func(w http.ResponseWriter, _ *http.Request) { s.effect(status); w.WriteHeader(http.StatusNoContent) },
		slow: func(w http.ResponseWriter, r *http.Request) {
			s.effect(slow)
			<-r.Context().Done()
			http.Error(w, "too slow", http.StatusInternalServerError)
		},
		panics:  func(http.ResponseWriter, *http.Request) { s.effect(panics); panic("boom") },
		dropped: func(http.ResponseWriter, *http.Request) { s.effect(dropped); panic(http.ErrAbortHandler) },
		aborted: func(w http.ResponseWriter, _ *http.Request) {
			s.effect(aborted)
			w.WriteHeader(http.StatusPaymentRequired)
		},
		accepted: func(http.ResponseWriter, *http.Request) { s.effect(accepted) },
	}
}

func connectApp(t *testing.T, s *service, guard func(http.Handler) http.Handler) string {
	if guard == nil {
		guard = func(h http.Handler) http.Handler { return h }
	}
	mux := http.NewServeMux()
	type request = connect.Request[emptypb.Empty]
	type response = connect.Response[wrapperspb.StringValue]
	unary := func(path string, f func(ctx context.Context) error) {
		mux.Handle("POST "+path, Connect(guard, path, func(ctx context.Context, _ *request) (*response, error) {
			id := s.effect(path)
			if err := f(ctx); err != nil {
				return nil, err
			}
			resp := connect.NewResponse(wrapperspb.String(id))
			resp.Header().Set("X-Charge", "yes")
			return resp, nil
		}))
	}
	fine := func(context.Context) error { return nil }
	unary(charge, fine)
	unary(silent, fine)
	unary(status, fine)
	unary(declined, func(context.Context) error {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("no money"))
	})
	unary(busy, func(context.Context) error {
		return connect.NewError(connect.CodeResourceExhausted, errors.New("no money"))
	})
	unary(released, func(ctx context.Context) error {
		notExecuted(ctx)
		return connect.NewError(connect.CodeUnavailable, errors.New("no money"))
	})
	unary(slow, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	unary(panics, func(context.Context) error { panic("boom") })
	unary(dropped, func(context.Context) error { panic(http.ErrAbortHandler) })
	unary(aborted, func(context.Context) error {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("no money"))
	})
	unary(accepted, fine)
	mux.HandleFunc("GET "+reading, func(http.ResponseWriter, *http.Request) {})
	return served(t, mux)
}
