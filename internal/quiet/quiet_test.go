package quiet

import (
	"bytes"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// C07: nothing that a client wrote gets into the log.
func TestText(t *testing.T) {
	for message, want := range map[string]string{
		`Unsolicited response received on idle HTTP channel starting with "HTTP/1.1 200 OK\r\n\r\ncanary"; err=<nil>` + "\n": "Unsolicited response received on idle HTTP channel starting with",
		"http: TLS handshake error from 192.0.2.1:1: EOF\n":                                                                  "http: TLS handshake error from 192.0.2.1:1: EOF",
		"http: two lines\ncanary": "http: two lines",
		"":                        "",
		`"canary"`:                "",
		"http: panic serving [::1]:1: canary: \"x\"\ngoroutine canary\n\ngoroutine 7 [running]:\nmain.f(0x1)\n": "http: panic serving [::1]:1\ngoroutine 7 [running]:\nmain.f(0x1)",
		"http2: panic serving 192.0.2.1:1: canary\ngoroutine 7 [running]:\nmain.f(0x1)\n":                       "http2: panic serving 192.0.2.1:1\ngoroutine 7 [running]:\nmain.f(0x1)",
		"http: panic serving @":           "http: panic serving @",
		strings.Repeat("x", 1<<20) + "\n": strings.Repeat("x", 8<<10),
	} {
		if got := Text(message); got != want {
			t.Errorf("%q became %q, want %q", message, got, want)
		}
	}
}

// What net/http really says of a panic.
func TestPanicOfAHandler(t *testing.T) {
	var out bytes.Buffer
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("canary") }))
	srv.Config.ErrorLog = Logger(slog.New(slog.NewTextHandler(&out, nil)))
	srv.Start()
	if _, err := srv.Client().Get(srv.URL); err == nil {
		t.Error("a panic was answered")
	}
	srv.Close()
	if s := out.String(); strings.Contains(s, "canary") || !strings.Contains(s, "panic serving 127.0.0.1") ||
		!strings.Contains(s, "TestPanicOfAHandler") || !strings.Contains(s, "level=WARN") {
		t.Error(s)
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	log.New(Writer(slog.New(slog.NewTextHandler(&out, nil))), "", 0).Printf("so %q", "canary")
	if s := out.String(); !strings.Contains(s, `msg=so`) || strings.Contains(s, "canary") {
		t.Error(s)
	}
}
