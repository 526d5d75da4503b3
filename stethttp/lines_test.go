package stethttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/stethttp"
)

// A stream whose messages are lines reaches its client line by line, once the handler flushes; and
// is not kept. What has a length, or is not flushed, is an answer as others are.
func TestStreamsOfLines(t *testing.T) { // Q15
	for _, c := range []struct {
		kind           string
		flushes, sized bool
		streams        bool
	}{
		{"application/x-ndjson", true, false, true},
		{"application/ndjson", true, false, true},
		{"application/jsonl", true, false, true},
		{"Application/Stream+JSON; charset=utf-8", true, false, true},
		{"application/x-ndjson", false, false, false},
		{"application/x-ndjson", true, true, false},
		{"application/json", true, false, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			read := make(chan struct{})
			r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				if c.sized {
					w.Header().Set("Content-Length", "4")
				}
				for _, line := range []string{"1\n", "2\n"} {
					_, _ = io.WriteString(w, line)
					if c.flushes {
						_ = http.NewResponseController(w).Flush()
					}
					if c.streams && line == "1\n" {
						select {
						case <-read: // the client has it, while this runs
						case <-time.After(patience):
							t.Error("the line does not reach the client")
						}
					}
				}
			})
			url := serve(t, r.handler)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			if line, err := in.ReadString('\n'); line != "1\n" {
				t.Fatalf("%q, %v", line, err)
			}
			close(read)
			if rest, err := io.ReadAll(in); string(rest) != "2\n" || err != nil {
				t.Errorf("then %q, %v", rest, err)
			}
			again := r.postTo("/", "k")
			if c.streams {
				r.want(again, 409, stethttp.ResultNotRetained)
			} else if body, _ := io.ReadAll(again.Body); again.StatusCode != 200 || string(body) != "1\n2\n" {
				t.Errorf("replayed as %d %q", again.StatusCode, body)
			}
			r.wantRuns(1)
		})
	}
}
