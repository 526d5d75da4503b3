package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// echoing is an upstream that answers with the body, unless the request has been ended meanwhile.
type echoing struct{}

func (echoing) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if ended := context.Cause(r.Context()); ended != nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, nil
}

// The time that a client takes for its body is not the upstream's.
func TestUpstreamTimeoutWaitsForTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(e, Config{Upstream: &url.URL{Scheme: "http", Host: "upstream"}, UpstreamTimeout: limit, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		g.proxy.Transport = echoing{}
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, "h")
			time.Sleep(3 * limit)
			_, _ = io.WriteString(out, "i")
			_ = out.Close()
		}()
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", in)
		r.ContentLength = 2
		if g.ServeHTTP(w, r); w.Code != http.StatusOK || w.Body.String() != "hi" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
