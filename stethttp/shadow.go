package stethttp

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
)

// shadow is one request of a route in shadow mode. The handler works as it would without the layer:
// on the client's own context, on the body while it arrives, and on a writer that passes everything
// on at once. Request and response are copied on the way. An exchange without a client finds out
// what the layer would have answered: when the whole body has been seen, the store is asked; when
// the handler has ended, too, the result is stored. No client waits for either.
type shadow struct {
	g     *Guard
	began time.Time
	body  bodyCopy
	res   responseCopy

	mu      sync.Mutex
	x       *exchange
	phase   shadowPhase
	ended   bool // the handler has
	crashed bool // ... by a panic
	gone    bool // ... after its client
	took    time.Duration
}

type shadowPhase uint8

const (
	arriving shadowPhase = iota // the body has not been seen whole
	asking                      // the store is being asked
	judged                      // it is known what would have been answered, or that it never will be
)

// unseen counts requests for which it is not known what would have been answered: the handler did
// not read the whole body, there was no room for a copy, or too many requests wait for the store.
const unseen = "unseen"

// maxShadows bounds how many requests in shadow mode wait for the store, so that a store that does
// not answer cannot fill the process with requests that are long answered.
const maxShadows = 1024

// shadow runs the handler as if there were no layer, and counts what the layer would have answered.
func (g *Guard) shadow(w http.ResponseWriter, r *http.Request, next http.Handler, lines []string) {
	s := &shadow{g: g, began: time.Now()}
	s.x = &exchange{g: g, r: r, shadow: true}
	s.x.run = &run{exchange: s.x, cap: &s.res.as}
	s.x.serve(lines)
	if s.x.result == "" && r.ContentLength > g.cfg.MaxBody {
		s.x.refuse(PayloadTooLarge)
	}
	if s.x.result != "" { // the answer does not depend on the body
		s.phase = judged
		defer s.end(r)
		next.ServeHTTP(w, r)
		return
	}
	s.x.r = snapshot(r)
	s.res.w, s.res.as.x, s.res.as.buf = w, s.x.run, s.x.memory()
	seen := s.watch(r)
	defer func() {
		if !s.ended { // a panic, http.ErrAbortHandler or Goexit: it goes on after this
			s.crashed = true
			s.end(r)
		}
	}()
	next.ServeHTTP(s.res.writer(), seen)
	r.MultipartForm, r.Pattern = seen.MultipartForm, seen.Pattern // the server removes its files by its own request
	s.end(r)
}

// snapshot returns a copy of the request that can be read while a handler works on the original,
// and afterwards.
func snapshot(r *http.Request) *http.Request {
	c := r.WithContext(context.WithoutCancel(r.Context()))
	u := *r.URL
	c.URL, c.Header, c.Body = &u, r.Header.Clone(), nil
	return c
}

// watch returns the request for the handler. Its body is read through a copy of the request,
// because net/http looks at the Body of its own request to decide what to do with the rest.
func (s *shadow) watch(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		s.ask()
		return r
	}
	c := r.WithContext(r.Context())
	s.body = bodyCopy{ReadCloser: r.Body, s: s, from: r, to: c, whole: r.ContentLength, copied: s.x.memory()}
	c.Body = &s.body
	return c
}

// ask starts asking the store. The body is complete, and its copy no longer changes.
func (s *shadow) ask() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != arriving || s.ended {
		return
	}
	s.x.body.buf, s.body.copied = s.body.copied, ledger.Buffer{}
	s.phase = asking
	if !s.g.engine.Go(maxShadows, s.decide) {
		s.giveUp(unseen)
	}
}

// giveUp ends the shadow without the store: it is not known what would have been answered, or it is
// known already.
func (s *shadow) giveUp(would string) {
	s.phase, s.x.result = judged, would
	s.body.copied.Drop()
	s.x.body.drop()
	s.res.drop()
}

func (s *shadow) decide() {
	x := s.x
	x.decide()
	x.body.drop()
	if x.run.claim != nil {
		x.run.claim.Hold(x.r.Context(), nil) // the context does not end, and the heartbeat keeps the key while the handler runs
	} else {
		s.res.drop()
	}
	s.mu.Lock()
	s.phase = judged
	ended := s.ended
	s.mu.Unlock()
	if ended {
		s.settle()
	}
}

// end records that the handler has ended.
func (s *shadow) end(r *http.Request) {
	s.res.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.gone, s.took = true, r.Context().Err() != nil, time.Since(s.began)
	switch s.phase {
	case arriving:
		s.giveUp(unseen)
		s.settle()
	case asking: // decide will see that it has
	case judged:
		if s.x.run.claim == nil {
			s.settle()
			return
		}
		s.g.engine.Go(0, s.settle)
	}
}

// settle stores the outcome if the request would have run, and counts the request.
func (s *shadow) settle() {
	if x := s.x.run; x.claim != nil {
		o := s.outcome()
		x.cap.release(x.claim.Settle(x.r.Context(), o))
		s.res.drop()
	}
	s.g.engine.Observe(stet.Event{Kind: stet.Answer, ID: s.x.id, Route: s.g.cfg.Route, Result: "bypass", Cause: s.x.result,
		Status: s.res.status, Took: s.took, WeakKey: s.x.weak, Attempt: s.x.attempt})
}

// outcome returns what the layer would have stored of the response.
func (s *shadow) outcome() stet.Outcome {
	x, explicit := s.x.run, s.res.status != 0
	s.res.fill(x)
	switch {
	case s.crashed:
		return x.panicked()
	case s.gone && (!explicit || x.cap.status >= 500) && x.claim.Stated() == 0: // with the layer, it would have gone on
		x.claim.Unknown("client-gone")
	}
	x.cap.complete()
	x.state()
	return x.outcome()
}

// bodyCopy is a request's body on its way to the handler.
type bodyCopy struct {
	io.ReadCloser
	s        *shadow
	from, to *http.Request
	whole    int64 // Content-Length, or -1
	read     int64
	copied   ledger.Buffer
}

// Read implements [io.Reader].
func (b *bodyCopy) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.from.Trailer != nil {
		b.to.Trailer = b.from.Trailer // trailers that were not announced are known only now
	}
	b.s.arrived(p[:n], err)
	return n, err
}

// arrived copies a piece of the body.
func (s *shadow) arrived(p []byte, err error) {
	s.mu.Lock()
	b := &s.body
	if s.phase != arriving || s.ended {
		s.mu.Unlock()
		return
	}
	b.read += int64(len(p))
	whole := err == io.EOF || b.read == b.whole
	c := &s.g.cfg
	switch {
	case b.read > c.MaxBody:
		s.giveUp(kinds[PayloadTooLarge].result)
	case err != nil && err != io.EOF, whole && c.BodyTimeout > 0 && time.Since(s.began) > c.BodyTimeout:
		s.giveUp(kinds[RequestTimeout].result)
	case !b.copied.Append(p, c.MaxBody):
		s.giveUp(unseen)
	}
	s.mu.Unlock()
	if whole {
		s.ask()
	}
}
