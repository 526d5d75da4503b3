package recipes

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin guards the handlers that follow it. Middleware that recovers from panics belongs before it,
// what answers c.Errors after it.
func Gin(guard func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		ran := false
		next := func(w http.ResponseWriter, r *http.Request) {
			ran = true
			outer, request := c.Writer, c.Request
			defer func() { c.Writer, c.Request = outer, request }()
			c.Writer, c.Request = &ginWriter{ResponseWriter: outer, guard: w, status: outer.Status(), size: -1}, r
			c.Next()
			if text, ok := ginUnrouted[c.Writer.Status()]; ok && c.FullPath() == "" && !c.Writer.Written() {
				c.Data(c.Writer.Status(), gin.MIMEPlain, []byte(text)) // gin does so after its last handler, too late
			}
			if len(c.Errors) == 0 || c.Writer.Written() { // else an error has no answer yet: unknown
				c.Writer.WriteHeaderNow()
			}
		}
		guard(http.HandlerFunc(next)).ServeHTTP(c.Writer, c.Request)
		if !ran { // the guard has answered, and gin would go on
			c.Abort()
		}
	}
}

// ginUnrouted are the answers of gin to what has no route.
var ginUnrouted = map[int]string{http.StatusNotFound: "404 page not found", http.StatusMethodNotAllowed: "405 method not allowed"}

// ginWriter is the guard's writer as gin wants it.
type ginWriter struct {
	gin.ResponseWriter // the connection's
	guard              http.ResponseWriter
	status, size       int
}

func (w *ginWriter) Unwrap() http.ResponseWriter { return w.guard }
func (w *ginWriter) Header() http.Header         { return w.guard.Header() }
func (w *ginWriter) Status() int                 { return w.status }
func (w *ginWriter) Size() int                   { return w.size }
func (w *ginWriter) Written() bool               { return w.size >= 0 }

func (w *ginWriter) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

func (w *ginWriter) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.guard.WriteHeader(w.status)
	}
}

func (w *ginWriter) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.guard.Write(p)
	w.size += n
	return n, err
}

func (w *ginWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *ginWriter) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.guard).Flush()
}

func (w *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.guard).Hijack()
}
