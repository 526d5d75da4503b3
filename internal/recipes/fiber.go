package recipes

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/stet-dev/stet"
)

// Fiber guards the handlers that follow it. fasthttp uses the memory of a request again, so the
// guard gets a copy of it; what it answers is held in memory, and becomes fiber's response when it
// is complete.
func Fiber(guard func(http.Handler) http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		r, err := fiberRequest(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		answer := fiberAnswer{header: http.Header{}, status: http.StatusOK}
		guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, outer := c.Context(), new(fasthttp.Response)
			c.Response().CopyTo(outer)
			defer func() { c.SetContext(ctx); outer.CopyTo(c.Response()) }()
			c.SetContext(r.Context()) // for stet.ClaimFrom(c.Context())
			c.Response().Reset()
			c.Status(outer.StatusCode())
			if err := c.Next(); err != nil && c.App().ErrorHandler(c, err) != nil {
				_ = c.SendStatus(http.StatusInternalServerError)
			}
			if claim := stet.ClaimFrom(r.Context()); claim != nil && fiberDropped(c, outer.StatusCode()) {
				claim.Unknown("dropped")
			}
			for name, value := range c.Response().Header.All() {
				w.Header().Add(string(name), string(value))
			}
			w.WriteHeader(c.Response().StatusCode())
			_, _ = w.Write(c.Response().Body())
		})).ServeHTTP(&answer, r)
		for name, values := range answer.header {
			c.Response().Header.Del(name)
			for _, v := range values {
				c.Response().Header.Add(name, v)
			}
		}
		c.Response().SetBody(answer.body.Bytes())
		c.Status(answer.status)
		return nil
	}
}

// fiberDropped reports whether the connection was closed, and nothing answered: by c.Drop.
func fiberDropped(c fiber.Ctx, before int) bool {
	r := c.Response()
	return r.StatusCode() == before && !r.IsBodyStream() && len(r.Body()) == 0 &&
		errors.Is(c.RequestCtx().Conn().SetWriteDeadline(time.Time{}), net.ErrClosed) // fasthttp sets it when it writes
}

func fiberRequest(c fiber.Ctx) (*http.Request, error) {
	r, err := http.NewRequestWithContext(c.Context(), string(c.Request().Header.Method()), "/", bytes.NewReader(c.BodyRaw()))
	if err != nil {
		return nil, err
	}
	r.RequestURI, r.Host = string(c.Request().RequestURI()), string(c.Request().Host())
	r.RemoteAddr, r.TLS = c.RequestCtx().RemoteAddr().String(), c.RequestCtx().TLSConnectionState()
	for name, value := range c.Request().Header.All() {
		r.Header.Add(string(name), string(value))
	}
	r.URL, err = url.ParseRequestURI(r.RequestURI)
	return r, err
}

// fiberAnswer is what the guard writes to.
type fiberAnswer struct {
	header http.Header
	status int
	sent   bool
	body   bytes.Buffer
}

func (a *fiberAnswer) Header() http.Header         { return a.header }
func (a *fiberAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *fiberAnswer) WriteHeader(status int) {
	if !a.sent && status >= http.StatusOK {
		a.status, a.sent = status, true
	}
}
