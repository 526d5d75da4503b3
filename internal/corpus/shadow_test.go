package corpus_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/stet-dev/stet/stethttp"
)

// TestShadowChangesNothing runs every case with everything in shadow mode, and with everything off:
// what the client receives, and what reaches the handler, is the same.
func TestShadowChangesNothing(t *testing.T) { // C15
	for name, start := range faces {
		t.Run(name, func(t *testing.T) {
			abreast(t, load(t, name), func(s *script) func(t *testing.T) {
				off, without := play(start, s, stethttp.ModeOff)
				defer without.stopLater(t)
				shadow, with := play(start, s, stethttp.ModeShadow)
				defer with.stopLater(t)
				same := reflect.DeepEqual(off, shadow) && agree(without.rec, with.rec)
				return func(t *testing.T) {
					if !same {
						t.Errorf("without the layer:\n%s\nin shadow mode:\n%s", transcript(s, off, without.rec.seen()), transcript(s, shadow, with.rec.seen()))
					}
				}
			})
		})
	}
}

var date = regexp.MustCompile(`(?m)^Date: .*$`)

// play runs a case in a mode, and takes out of what came back the time that it was.
func play(start func(setup) *face, s *script, mode stethttp.Mode) ([]exchanged, *face) {
	up := s.setup()
	up.mode = mode
	f := start(up)
	got := f.run(s)
	for i := range got {
		got[i].raw = date.ReplaceAll(got[i].raw, nil)
		if f.proxy { // it cuts chunks as it happens to read them
			got[i].raw = nil
		}
		for _, replies := range got[i].replies {
			for _, r := range replies {
				r.header.Del("Date")
			}
		}
	}
	return got, f
}

// agree waits until two recorders have taken down the same. A client may be told that its request
// is broken while a handler still reads from it.
func agree(a, b *recorder) bool {
	late := time.After(patience)
	for {
		aChanged, bChanged := a.changed(), b.changed()
		if reflect.DeepEqual(a.seen(), b.seen()) {
			return true
		}
		select {
		case <-aChanged:
		case <-bChanged:
		case <-late:
			return false
		}
	}
}

// TestShadowHoldsNothingBack: the handler has what the client has sent so far, and the client what
// the handler has written so far.
func TestShadowHoldsNothingBack(t *testing.T) { // C15
	for name, start := range faces {
		t.Run(name, func(t *testing.T) {
			first, hinted, early := make(chan string, 1), make(chan struct{}), make(chan struct{})
			f := start(setup{mode: stethttp.ModeShadow, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b := make([]byte, 5)
				_, _ = io.ReadFull(r.Body, b)
				first <- string(b)
				_, _ = io.ReadAll(r.Body)
				w.WriteHeader(http.StatusEarlyHints)
				await(t, hinted)
				_, _ = io.WriteString(w, "early")
				_ = http.NewResponseController(w).Flush()
				await(t, early)
				_, _ = io.WriteString(w, " and late")
			})})
			defer f.stopLater(t)
			conn, err := f.dial(false)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(conn, "POST /v1/pay HTTP/1.1\r\nHost: api\r\nIdempotency-Key: \"k\"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
			if got := take(t, first); got != "first" {
				t.Fatalf("the handler read %q", got)
			}
			_, _ = io.WriteString(conn, "5\r\n rest\r\n0\r\n\r\n")
			in := bufio.NewReader(conn)
			if r, ok := read(in, false); !ok || r.status != "103" {
				t.Fatalf("the interim answer: %v", r)
			}
			close(hinted)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b := make([]byte, 5)
			if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != "early" {
				t.Fatalf("%q: %v", b, err)
			}
			close(early)
			if late, err := io.ReadAll(res.Body); err != nil || string(late) != " and late" {
				t.Fatalf("%q: %v", late, err)
			}
		})
	}
}

func await(t *testing.T, c <-chan struct{}) {
	select {
	case <-c:
	case <-time.After(patience):
		t.Error("the client heard nothing while the handler worked")
	}
}

func take(t *testing.T, c <-chan string) string {
	t.Helper()
	select {
	case s := <-c:
		return s
	case <-time.After(patience):
		t.Fatal("the handler saw nothing while the client was sending")
		return ""
	}
}

// TestShadowOverHTTP2: there handlers have other abilities, and bodies other ends.
func TestShadowOverHTTP2(t *testing.T) { // C15
	for name, start := range faces {
		t.Run(name, func(t *testing.T) {
			abilities := make(chan string, 2)
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, flusher := w.(http.Flusher)
				_, hijacker := w.(http.Hijacker)
				_, pusher := w.(http.Pusher)
				_, reader := w.(io.ReaderFrom)
				_, writer := w.(io.StringWriter)
				_, broken := io.ReadAll(r.Body)
				abilities <- fmt.Sprint(flusher, hijacker, pusher, reader, writer, broken)
			})
			d := &dialogue{http2: true, turns: []turn{{answers: []answer{{}},
				send: []string{":method POST", ":scheme http", ":authority api", ":path /v1/pay", "idempotency-key k", "content-length 5", "DATA {}"}}}}
			var got []string
			for _, mode := range []stethttp.Mode{stethttp.ModeOff, stethttp.ModeShadow} {
				f := start(setup{mode: mode, handler: h})
				defer f.stopLater(t)
				f.speak2(d)
				got = append(got, take(t, abilities))
			}
			if got[0] != got[1] {
				t.Errorf("without the layer %s, in shadow mode %s", got[0], got[1])
			}
		})
	}
}

// TestShadowPassesPanicsOn: the client of a handler that panics sees the connection end, after what
// was written.
func TestShadowPassesPanicsOn(t *testing.T) { // C15
	var raw [2][]byte
	for i, mode := range []stethttp.Mode{stethttp.ModeOff, stethttp.ModeShadow} {
		f := newMiddleware(setup{mode: mode, handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(errors.New("boom"))
		})})
		defer f.stopLater(t)
		x := f.speak(&dialogue{turns: []turn{{send: []string{"POST /v1/pay HTTP/1.1\r\nHost: api\r\nIdempotency-Key: k\r\n\r\n"}}}})
		raw[i] = date.ReplaceAll(x.raw, nil)
	}
	if len(raw[0]) == 0 || !bytes.Equal(raw[0], raw[1]) {
		t.Errorf("without the layer %q, in shadow mode %q", raw[0], raw[1])
	}
}
