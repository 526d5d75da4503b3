package console

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"time"
)

// answer keeps a page until it is drawn.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// drawPage draws a page. Where the store takes its time, the frame is sent first, and the page
// follows in the same answer when it is drawn: this needs no script. It takes the place of what
// stands there meanwhile, see #wait in console.css.
func (p *page) drawPage(draw pageFunc) {
	w, kept := p.w, &answer{header: p.w.Header().Clone(), status: http.StatusOK}
	waiting := *p
	p.w = kept
	var cause any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { cause = recover() }()
		if err := draw(p); err != nil {
			p.fail(err)
		}
	}()
	after := time.NewTimer(2 * p.console.patience)
	defer after.Stop()
	sent := false
	select {
	case <-done:
	case <-after.C:
		sent = waiting.sendFrame() == nil
		<-done
	}
	if cause != nil {
		panic(cause) // where net/http sees it
	}
	body := kept.body.Bytes()
	if sent {
		_, _ = w.Write([]byte("</main>\n"))
		_, _ = w.Write(body[max(0, bytes.Index(body, []byte("<main"))):])
		return
	}
	maps.Copy(w.Header(), kept.header)
	w.WriteHeader(kept.status)
	_, _ = w.Write(body)
}

// sendFrame sends a page up to where the content begins.
func (p *page) sendFrame() error {
	ctx, cancel := context.WithTimeout(p.ctx(), 0)
	defer cancel()
	v := view{Title: "Being read", Wait: true}
	if s, err := tidied(p.api.Overview(ctx, false)); err == nil {
		v.Status = &s
	}
	if err := p.write(http.StatusOK, "wait", v); err != nil {
		return err
	}
	return http.NewResponseController(p.w).Flush()
}
