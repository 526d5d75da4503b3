package stethttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/stethttp"
)

// frame is a message of gRPC, or of gRPC-Web the trailers, with flags before it.
func frame(flags byte, payload string) string {
	n := len(payload)
	return string([]byte{flags, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + payload
}

// C20: an answer of gRPC is 200 whatever happened. Over real HTTP/2, as a gRPC server of net/http
// answers.
func TestGRPCStatusesDecide(t *testing.T) {
	type answer func(w http.ResponseWriter, code string)
	trailers := func(w http.ResponseWriter, code string) {
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		_, _ = io.WriteString(w, frame(0, "message"))
		w.Header().Set("Grpc-Status", code)
		w.Header().Set("Grpc-Message", "so%20it%20is")
	}
	unannounced := func(w http.ResponseWriter, code string) {
		_, _ = io.WriteString(w, frame(0, "message"))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", code)
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "so%20it%20is")
		w.Header().Set(http.TrailerPrefix+"X-Sum-Bin", "AAEC")
	}
	only := func(w http.ResponseWriter, code string) { w.Header().Set("Grpc-Status", code) }
	const proto = "application/grpc+proto"
	type row struct {
		mediaType, code string
		answer          answer
		want            stet.State
	}
	var rows []row
	for code, want := range map[string]stet.State{
		"0": stet.Completed, "1": stet.Unknown, "2": stet.Unknown, "3": stet.Completed, "4": stet.Unknown, "5": stet.Completed, "6": stet.Completed,
		"7": stet.Retryable, "8": stet.Retryable, "9": stet.Completed, "10": stet.Completed, "11": stet.Completed, "12": stet.Completed,
		"13": stet.Unknown, "14": stet.Retryable, "15": stet.Unknown, "16": stet.Retryable,
		"17": stet.Unknown, "-1": stet.Unknown, "08": stet.Unknown, "OK": stet.Unknown, "": stet.Unknown,
	} {
		for _, a := range []answer{trailers, unannounced, only} {
			rows = append(rows, row{proto, code, a, want})
		}
	}
	web := func(text bool) answer {
		return func(w http.ResponseWriter, code string) {
			parts := []string{frame(0, "message"), frame(0x80, "grpc-status: "+code+"\r\ngrpc-message:x\r\n")}
			for _, p := range parts {
				if text {
					p = base64.StdEncoding.EncodeToString([]byte(p))
				}
				_, _ = io.WriteString(w, p)
			}
		}
	}
	status := func(status int, a answer) answer {
		return func(w http.ResponseWriter, code string) { w.WriteHeader(status); a(w, code) }
	}
	stated := func(said string, a answer) answer {
		return func(w http.ResponseWriter, code string) { w.Header().Set("Stet-Outcome", said); a(w, code) }
	}
	twice := func(w http.ResponseWriter, _ string) { w.Header()["Grpc-Status"] = []string{"0", "8"} }
	silent := func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "x") }
	rows = append(rows,
		row{"application/grpc", "8", trailers, stet.Retryable},
		row{"Application/gRPC; x=y", "8", trailers, stet.Retryable},
		row{"application/grpc-web+proto", "8", web(false), stet.Retryable},
		row{"application/grpc-web+proto", "0", web(false), stet.Completed},
		row{"application/grpc-web-text", "8", web(true), stet.Retryable},
		row{"application/grpc-web-text", "5", web(true), stet.Completed},
		row{"application/grpc-web-text", "5", web(false), stet.Unknown},
		row{"application/grpc-web", "8", only, stet.Retryable},
		row{"application/grpc-web", "", silent, stet.Unknown},
		row{proto, "0", twice, stet.Unknown},
		row{proto, "", silent, stet.Unknown},
		row{proto, "", status(429, silent), stet.Retryable}, // something before the service answered
		row{proto, "", status(500, silent), stet.Completed},
		row{proto, "13", status(500, trailers), stet.Unknown},
		row{proto, "13", stated("not-executed", trailers), stet.Retryable},
		row{proto, "8", stated("completed", trailers), stet.Completed},
		row{"application/json", "8", trailers, stet.Completed},
		row{"", "8", trailers, stet.Completed},
	)
	var now row
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		if now.mediaType != "" {
			w.Header().Set("Content-Type", now.mediaType)
		}
		now.answer(w, now.code)
	})
	srv := httptest.NewUnstartedServer(r.handler)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	call := func(key string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/pay.Payments/Charge", strings.NewReader(frame(0, "request")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {proto}, "Te": {"trailers"}, "Idempotency-Key": {key}}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	read := func(res *http.Response) string {
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return fmt.Sprintf("%d %q %q %v %v", res.StatusCode, b, res.Header["Grpc-Status"], res.Trailer, err)
	}
	for i, row := range rows {
		now = row
		key := fmt.Sprint("k", i)
		runs := r.runs.Load()
		first := read(call(key))
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
		if err != nil || rec.State != row.want {
			t.Errorf("%d. %s %q: %s, %v, want %s", i, row.mediaType, row.code, rec.State, err, row.want)
			continue
		}
		second := call(key)
		again := read(second)
		switch row.want {
		case stet.Completed:
			if again != first || second.Header.Get("Idempotent-Replayed") != "true" || r.runs.Load() != runs+1 {
				t.Errorf("%d. %s was replayed as %s", i, first, again)
			}
		case stet.Retryable:
			if again != first || r.runs.Load() != runs+2 {
				t.Errorf("%d. the retry did not run: %s", i, again)
			}
		default:
			if second.Header.Get("Stet-Problem") != "outcome-unknown" || second.Header.Get("Grpc-Status") != "10" || r.runs.Load() != runs+1 {
				t.Errorf("%d. an unknown outcome is answered %s", i, again)
			}
		}
	}
}

// C20: a late answer of gRPC that says it failed is no result, though its status of HTTP is 200.
func TestLateGRPCFailure(t *testing.T) {
	for code, want := range map[string]stet.State{"0": stet.Completed, "8": stet.Unknown, "13": stet.Unknown} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: time.Second}}, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(2 * time.Second)
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Grpc-Status", code)
				w.WriteHeader(http.StatusOK)
			})
			r.want(r.post("k", "{}"), 504, stethttp.ExecutionTimeout)
			synctest.Wait()
			rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
			if err != nil || rec.State != want {
				t.Errorf("%s: %s, %v, want %s", code, rec.State, err, want)
			}
		})
	}
}

// C20: the status of an answer that was too long to hold reaches the client, announced or not, and
// decides.
func TestGRPCStatusAfterALongAnswer(t *testing.T) {
	for _, prefix := range []string{"", http.TrailerPrefix} {
		r := newRig(t, stethttp.Config{MaxResponse: 100}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			if prefix == "" {
				w.Header().Set("Trailer", "Grpc-Status, Stet-Outcome")
			}
			_, _ = io.WriteString(w, frame(0, strings.Repeat("x", 200)))
			w.Header().Set(prefix+"Grpc-Status", "13")
		})
		srv := httptest.NewServer(r.handler)
		req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader("x"))
		req.Header.Set("Idempotency-Key", "k")
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, announced := res.Trailer["Stet-Outcome"]
		if b, err := io.ReadAll(res.Body); len(b) != 205 || err != nil || res.Trailer.Get("Grpc-Status") != "13" || announced {
			t.Errorf("%q: %d bytes, %v, %v", prefix, len(b), err, res.Trailer)
		}
		res.Body.Close()
		srv.Close()
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if err != nil || rec.State != stet.Unknown {
			t.Errorf("%q: %s, %v", prefix, rec.State, err)
		}
	}
}

// gzipped compresses what servers send.
func gzipped(t *testing.T, plain string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A trailer frame of gRPC-Web that is compressed is read, as far as it can be, in memory that its
// sender does not choose.
func TestCompressedTrailersOfGRPCWeb(t *testing.T) { // R03
	says := func(code string) string { return gzipped(t, "grpc-message: x\r\ngrpc-status: "+code+"\r\n") }
	const message, trailer, plain = 0x01, 0x81, 0x80
	ok := says("0")
	within := gzipped(t, "x: "+strings.Repeat("x", 10<<10)+"\r\ngrpc-status: 0\r\n")
	beyond := gzipped(t, "grpc-status: 0\r\nx: "+strings.Repeat("x", 16<<10)+"\r\n")
	bomb := gzipped(t, "grpc-status: 0\r\nx: "+strings.Repeat("x", 64<<20)+"\r\n")
	for name, row := range map[string]struct {
		encoding []string
		frames   string
		want     stet.State
	}{
		"OK":                        {[]string{"gzip"}, frame(trailer, ok), stet.Completed},
		"OK after a message":        {[]string{"gzip"}, frame(message, gzipped(t, "m")) + frame(trailer, ok), stet.Completed},
		"NOT_FOUND":                 {[]string{"gzip"}, frame(trailer, says("5")), stet.Completed},
		"UNAVAILABLE":               {[]string{"gzip"}, frame(trailer, says("14")), stet.Retryable},
		"INTERNAL":                  {[]string{"gzip"}, frame(trailer, says("13")), stet.Unknown},
		"not compressed":            {[]string{"gzip"}, frame(plain, "grpc-status:14\r\n"), stet.Retryable},
		"long":                      {[]string{"gzip"}, frame(trailer, within), stet.Completed},
		"too long":                  {[]string{"gzip"}, frame(trailer, beyond), stet.Unknown},
		"a bomb":                    {[]string{"gzip"}, frame(trailer, bomb), stet.Unknown},
		"cut off":                   {[]string{"gzip"}, frame(trailer, ok[:len(ok)-4]), stet.Unknown},
		"cut off in its first half": {[]string{"gzip"}, frame(trailer, ok[:len(ok)/2]), stet.Unknown},
		"a broken sum":              {[]string{"gzip"}, frame(trailer, ok[:len(ok)-8]+"12345678"), stet.Unknown},
		"followed by another":       {[]string{"gzip"}, frame(trailer, ok) + frame(0, "m"), stet.Unknown},
		"after another status":      {[]string{"gzip"}, frame(plain, "grpc-status:14\r\n") + frame(trailer, ok[:9]), stet.Unknown},
		"not gzip":                  {[]string{"gzip"}, frame(trailer, "grpc-status: 14\r\n"), stet.Unknown},
		"empty":                     {[]string{"gzip"}, frame(trailer, ""), stet.Unknown},
		"another encoding":          {[]string{"br"}, frame(trailer, ok), stet.Unknown},
		"identity":                  {[]string{"identity"}, frame(trailer, ok), stet.Unknown},
		"two encodings":             {[]string{"gzip", "gzip"}, frame(trailer, ok), stet.Unknown},
		"no encoding":               {nil, frame(trailer, ok), stet.Unknown},
	} {
		for mediaType, body := range map[string]string{
			"application/grpc-web+proto": row.frames,
			"application/grpc-web-text":  base64.StdEncoding.EncodeToString([]byte(row.frames)),
		} {
			r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mediaType)
				w.Header()["Grpc-Encoding"] = row.encoding
				_, _ = io.WriteString(w, body)
			})
			r.post("k", "{}")
			rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
			if err != nil || rec.State != row.want {
				t.Errorf("%s, %s: %s, %v, want %s", name, mediaType, rec.State, err, row.want)
			}
		}
	}
}

// An answer with a status of its own may still say in a frame what cannot be read: something has
// come from the service, and its status of HTTP does not decide.
func TestUnreadableTrailersOutweighTheStatus(t *testing.T) { // R03
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc-web")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, frame(0x81, "x"))
	})
	r.post("k", "{}")
	r.isUnknown(t)
}

// The memory that a trailer frame takes does not grow with what it would be without its
// compression.
func TestATrailerFrameTakesNoMemory(t *testing.T) { // R03
	bomb := frame(0x81, gzipped(t, strings.Repeat("x", 64<<20)))
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc-web")
		w.Header().Set("Grpc-Encoding", "gzip")
		_, _ = io.WriteString(w, bomb)
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.post("k", "{}")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
}

// A body that was too long to be held is not read for a status: of what is held, the end may be any
// piece of a message. I14
func TestGRPCWebBodyTooLongToHold(t *testing.T) {
	long := frame(0, strings.Repeat("x", 2000))
	says := func(code string) string { return frame(0x80, "grpc-status: "+code+"\r\n") }
	for name, pieces := range map[string][]string{
		"the end would fit":         {frame(0, "small"), long, says("0")},
		"what came first is an end": {says("14"), long, says("13")},
		"a message holds an end":    {frame(0, "small"), long[:1500], says("14")},
	} {
		t.Run("withheld, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *rig
				r = newRig(t, stethttp.Config{Withhold: true, MaxResponse: 1000}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/grpc-web+proto")
					for _, p := range pieces {
						r.store.down.Store(len(p) > 1000)
						_, _ = io.WriteString(w, p)
					}
					r.store.down.Store(false)
				})
				r.post("k", "{}")
				r.isUnknown(t)
			})
		})
		t.Run("late, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := stethttp.Config{MaxResponse: 1000, Policy: stet.Policy{Execution: time.Second}}
				r := newRig(t, c, func(w http.ResponseWriter, req *http.Request) {
					<-req.Context().Done()
					time.Sleep(time.Second)
					w.Header().Set("Content-Type", "application/grpc-web+proto")
					for _, p := range pieces {
						_, _ = io.WriteString(w, p)
					}
				})
				r.post("k", "{}")
				r.isUnknown(t)
			})
		})
	}
}

// What follows a piece that was too long to be held is not held either, and so not taken for the
// beginning of the body.
func TestNothingIsHeldBehindAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stethttp.Config{MaxResponse: 1000, OnOversize: stethttp.OmitBody, Policy: stet.Policy{Execution: time.Second}}
		r := newRig(t, c, func(w http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
			time.Sleep(time.Second)
			_, _ = io.WriteString(w, strings.Repeat("x", 2000))
			_, _ = io.WriteString(w, "<html>")
		})
		r.post("k", "{}")
		if err := r.engine.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if err != nil || rec.Response == nil {
			t.Fatal("the late answer is not kept", err)
		}
		for _, f := range rec.Response.Header {
			if f.Name == "Content-Type" {
				t.Errorf("the type of what is left is stored: %s", f.Value)
			}
		}
	})
}

// Clients of gRPC read no documents: each answer of the layer's own is a status of gRPC for them, which
// their own policies of retries understand. What may have had its effect is not UNAVAILABLE.
func TestGRPCClientsHearRefusals(t *testing.T) { // R04
	byStatus := map[int]string{400: "3", 401: "16", 408: "14", 409: "10", 412: "9", 413: "8", 422: "9", 425: "14", 429: "8", 502: "14", 503: "14", 504: "4", 508: "9"}
	n := 0
	for _, code := range problems.Codes() {
		p := stethttp.NewProblem(stethttp.Code(code), "https://x/")
		if p.Status == 0 { // of the admin API
			continue
		}
		n++
		want := byStatus[p.Status]
		if p.Code == stethttp.UpstreamFailed {
			want = "2"
		}
		for _, mediaType := range []string{"application/grpc", "Application/gRPC-Web+proto"} {
			r := httptest.NewRequest("POST", "/", nil)
			r.Header.Set("Content-Type", mediaType)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			h := w.Header()
			if message, err := url.PathUnescape(h.Get("Grpc-Message")); w.Code != 200 || w.Body.Len() > 0 || h.Get("Content-Type") != mediaType ||
				h.Get("Grpc-Status") != want || message != p.Title+". "+p.Detail || err != nil || h.Get("Stet-Problem") != code {
				t.Errorf("%s: %d %v, want status %s", code, w.Code, h, want)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d codes", n)
	}
}

func (r *rig) isUnknown(t *testing.T) {
	t.Helper()
	if err := r.engine.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
	if err != nil || rec.State != stet.Unknown {
		t.Errorf("it is %s, %v, want unknown", rec.State, err)
	}
}
