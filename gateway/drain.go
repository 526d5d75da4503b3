package gateway

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stet-dev/stet/stethttp"
)

// drain counts the running requests. After begin it lets no more in.
type drain struct {
	mu    sync.Mutex
	n     int
	began time.Time     // zero: not yet
	idle  chan struct{} // closed when the last one has left; made by begin
}

// drainKey is the key of the server's drain in the context of its requests.
type drainKey struct{}

func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle != nil {
		return false
	}
	d.n++
	return true
}

func (d *drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n--
	if d.idle != nil && d.n == 0 {
		close(d.idle)
	}
}

func (d *drain) begin() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.began, d.idle = time.Now(), make(chan struct{})
	if d.n == 0 {
		close(d.idle)
	}
	return d.idle
}

// look returns how many requests run, and when the drain began.
func (d *drain) look() (running int, began time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n, d.began
}

// refuseDraining answers a request that came after the drain began. The request is not looked at.
func refuseDraining(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	stethttp.NewProblem(stethttp.ShuttingDown, stethttp.DefaultProblemBase).After(time.Second).ServeHTTP(w, r)
}

// limitBodies gives a request body a time limit to arrive. [http.Server.ReadTimeout] would stay on
// the connection while the handler runs, and then end the context of a handler that takes longer to
// answer.
func limitBodies(limit limit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			rc := http.NewResponseController(w)
			if rc.SetReadDeadline(time.Now().Add(limit())) == nil {
				// The request is copied, because net/http looks at the Body of its own request to
				// send an early refusal without waiting for the rest.
				body := &timedBody{r.Body, rc}
				r = r.WithContext(r.Context())
				r.Body = body
			}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody removes the deadline when the body has arrived.
type timedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
