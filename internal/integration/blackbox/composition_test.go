package blackbox

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/stet-dev/stet/stethttp"
)

// compressionOutsideAndInside: a compressing handler may stand before the guard or behind it.
// Clients read the same.
func compressionOutsideAndInside(c *C) {
	m := c.srv.(*middleware)
	g, err := stethttp.New(m.nodes[0].engine, principal, stethttp.Config{})
	if err != nil {
		c.Fatal(err)
	}
	for name, h := range map[string]http.Handler{"outside": compress(g.Wrap(m.fx)), "inside": g.Wrap(compress(m.fx))} {
		s := httptest.NewServer(h)
		c.Cleanup(s.Close)
		d := c.Named(name)
		d.srv = &bare{s.URL, m.fx}
		first := d.POST("/fx/echo", body(string(Pattern(5000))), header("Accept-Encoding", "gzip")).First(201)
		second := first.Retry().Replays(first)
		for _, a := range []*Answer{first, second} {
			z, err := gzip.NewReader(bytes.NewReader(a.Body))
			if err != nil {
				a.fail("not compressed: %v", err)
			}
			if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, Pattern(5000)) {
				a.fail("it decodes to something else: %v", err)
			}
		}
		d.Effects(1)
	}
}

// compress is the least a compressing handler does.
func compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z := gzip.NewWriter(w)
		next.ServeHTTP(&compressed{w, z}, r)
		_ = z.Close()
	})
}

type compressed struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w *compressed) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.Header().Set("Content-Encoding", "gzip")
	w.ResponseWriter.WriteHeader(status)
}

func (w *compressed) Write(p []byte) (int, error) { return w.z.Write(p) }
