package recipes

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/stet-dev/stet"
)

// naiveGin is the bridge that looks right: the handlers write to the connection's writer, and gin
// runs them although the guard has answered.
func naiveGin(guard func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
	}
}

// abortingGin is the same, and aborts.
func abortingGin(guard func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		ran := false
		guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ran, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !ran {
			c.Abort()
		}
	}
}

// swappingGin has gin send a bare status by its own writer, and all else by the guard's, as adapters
// do that embed gin's.
func swappingGin(guard func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		ran, outer := false, c.Writer
		guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran, c.Request, c.Writer = true, r, swappedWriter{outer, w}
			c.Next()
			c.Writer = outer
		})).ServeHTTP(outer, c.Request)
		if !ran {
			c.Abort()
		}
	}
}

type swappedWriter struct {
	gin.ResponseWriter
	guard http.ResponseWriter
}

func (w swappedWriter) Header() http.Header         { return w.guard.Header() }
func (w swappedWriter) Write(p []byte) (int, error) { return w.guard.Write(p) }
func (w swappedWriter) WriteHeader(status int)      { w.guard.WriteHeader(status) }

// ginErrorsOutside has the recipe, but what answers errors before it.
func ginErrorsOutside(s *service, guard gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(answerErrors, guard)
	r.POST(declined, func(c *gin.Context) {
		s.effect(declined)
		_ = c.Error(errors.New("no money")).SetMeta(http.StatusPaymentRequired)
	})
	return r
}

// C09: a naive bridge never makes an empty 200 of an answer, nor two effects of one key: the
// outcome is unknown, and the observer hears why.
func TestNaiveBridges(t *testing.T) {
	bridges := []struct {
		name  string
		serve func(t *testing.T, s *service) string
		lost  []string // the paths whose answers the guard cannot see
	}{
		{"gin", func(t *testing.T, s *service) string { return served(t, ginRouter(s, naiveGin(s.guard()))) },
			[]string{charge, declined, busy, silent, status}},
		{"gin that aborts", func(t *testing.T, s *service) string { return served(t, ginRouter(s, abortingGin(s.guard()))) },
			[]string{charge, declined, busy, silent, status}},
		{"gin, a bare status past the guard", func(t *testing.T, s *service) string { return served(t, ginRouter(s, swappingGin(s.guard()))) },
			[]string{aborted}}, // R11
		{"gin, errors answered before the guard", func(t *testing.T, s *service) string {
			return served(t, ginErrorsOutside(s, Gin(s.guard())))
		}, []string{declined}},
		{"echo.WrapMiddleware", func(t *testing.T, s *service) string {
			return served(t, echoRouter(s, echo.WrapMiddleware(s.guard())))
		}, []string{declined, busy, silent}},
		{"echo5.WrapMiddleware", func(t *testing.T, s *service) string {
			return served(t, echo5Router(s, echo5.WrapMiddleware(s.guard())))
		}, []string{declined, busy, silent}},
		{"fiber's adaptor.HTTPMiddleware", func(t *testing.T, s *service) string {
			return fiberListen(t, fiberRouter(s, adaptor.HTTPMiddleware(s.guard())))
		}, []string{charge, declined, busy, silent, status}},
	}
	for _, b := range bridges {
		t.Run(b.name, func(t *testing.T) {
			s := newService(t)
			url := b.serve(t, s)
			for _, path := range b.lost {
				t.Run(path[1:], func(t *testing.T) {
					key, before := "5f1c2ab0-7d10-4f5e"+strings.ReplaceAll(path, "/", "-"), s.miswired()
					first := post(t, url+path, key)
					if first.err || first.status == http.StatusOK && first.body == "" && path != silent && path != aborted {
						t.Errorf("the first answer is\n%s", first.text())
					}
					if s.state(t, key) != stet.Unknown || s.miswired() != before+1 {
						t.Errorf("the record is %s, and the observer heard of %d wrong wirings, not one", s.state(t, key), s.miswired()-before)
					}
					for range 2 {
						again := post(t, url+path, key)
						if again.status != 409 || again.replayed() || !strings.Contains(again.body, "outcome-unknown") {
							t.Errorf("the retry gets\n%s", again.text())
						}
					}
					if n := s.count(path); n != 1 {
						t.Errorf("%d effects", n)
					}
				})
			}
		})
	}
}
