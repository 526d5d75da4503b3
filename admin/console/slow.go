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

// waitAfter is after how many times its patience a page is sent as its frame. Pages of readings wait
// for two of them, and are not among these.
const waitAfter = 3

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
	after := time.NewTimer(waitAfter * p.console.patience)
	defer after.Stop()
	sent := false
	select {
	case <-done:
	case <-after.C:
		sent = waiting.sendFrame()
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

// sendFrame sends a page up to where the content begins, and reports whether it has.
func (p *page) sendFrame() bool {
	ctx, cancel := context.WithTimeout(p.ctx(), 0) // what is known without asking
	defer cancel()
	v := view{Title: "Being read", Wait: true}
	if s, err := tidied(p.api.Overview(ctx)); err == nil {
		v.Status = &s
	}
	if err := p.write(http.StatusOK, "wait", v); err != nil {
		return false
	}
	_ = http.NewResponseController(p.w).Flush() // what cannot be flushed is sent with the rest
	return true
}
