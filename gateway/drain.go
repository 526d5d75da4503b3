package gateway

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/stethttp"
)

// drain counts the running requests. After begin it lets no more in.
type drain struct {
	mu    sync.Mutex
	n     int
	began time.Time       // zero: not yet
	idle  chan struct{}   // closed when the last one has left; made by begin
	over  <-chan struct{} // closed when those that are still there are cut off
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

// stay counts work that goes on for a request that is about to leave.
func (d *drain) stay() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
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

// refuser is a handler that has its own form of refusals: a [Gateway], or a type that embeds one.
type refuser interface {
	turnAway(w http.ResponseWriter, r *http.Request, code stethttp.Code, detail string)
}

// refuseDraining answers a request that came after the drain began, in the form of the server's
// handler. The request is not looked at.
func refuseDraining(w http.ResponseWriter, r *http.Request, h http.Handler) {
	w.Header().Set("Connection", "close")
	if g, ok := h.(refuser); ok {
		g.turnAway(w, r, stethttp.ShuttingDown, "")
		return
	}
	stethttp.NewProblem(stethttp.ShuttingDown, stethttp.DefaultProblemBase).ServeHTTP(w, r)
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
				body := &timedBody{ReadCloser: r.Body, rc: rc}
				defer body.endUnasked(r)
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
	rc    *http.ResponseController
	asked atomic.Bool // reading has begun
}

// endUnasked keeps net/http from waiting for a body that its client was never asked for with 100
// (Continue): after another answer the client need not send it (RFC 9110 section 10.1.1).
func (b *timedBody) endUnasked(r *http.Request) {
	if r.ProtoMajor < 2 && r.Header["Expect"] != nil && !b.asked.Load() {
		_ = b.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.asked.Store(true)
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
