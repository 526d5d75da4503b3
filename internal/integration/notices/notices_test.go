// Package notices holds webhooks against every store there is: a provider delivers its notices at
// least once, and late.
package notices

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/opened"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/reconcile"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

var (
	id     = stet.ID{Scope: "s", Key: "k"}
	key    = []byte("0123456789abcdef01234567")
	secret = "whsec_" + base64.StdEncoding.EncodeToString(key)
)

// deliver sends a notice under an id, signed at a time, and returns its answer.
func deliver(h http.Handler, webhookID, body string, at time.Time) string {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%d.%s", webhookID, at.Unix(), body)
	r := httptest.NewRequest(http.MethodPost, "/hooks/reconcile", strings.NewReader(body))
	r.Header.Set("Webhook-Id", webhookID)
	r.Header.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", w.Body)
}

// attempt has one run whose answer is lost, and returns which it was.
func attempt(t *testing.T, e *stet.Engine) int {
	t.Helper()
	d, err := e.Begin(t.Context(), stet.Request{ID: id, Subject: stet.Subject{Body: []byte("1")}})
	if err != nil || d.Verdict != stet.Execute {
		t.Fatal(d.Verdict, err)
	}
	d.Claim.Unknown("lost")
	if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for { // the way to the store and back may count as a handler's
		r, err := e.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Attended() {
			return d.Claim.Attempt()
		}
		<-tick.C
	}
}

// Attempt 1 is unknown, a notice frees the key, attempt 2 has its effect and its answer is lost,
// and the notice comes again: nothing runs a third time.
func TestANoticeThatComesAgainRunsNothing(t *testing.T) { // A01, I1, I14
	for name, open := range opened.Stores {
		t.Run(name, func(t *testing.T) {
			e, err := stet.New(open(t), stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			hook := reconcile.Webhook{Engine: e, Secrets: []string{secret}}
			attempt(t, e)
			r, err := e.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			body := fmt.Sprintf(`{"scope":"s","key":"k","outcome":"not-executed","fence":%d}`, r.Fence())
			now := time.Now()
			if a := deliver(hook, "msg_1", body, now); !strings.HasPrefix(a, `200 {"result":"resolved"}`) {
				t.Fatal(a)
			}
			if n := attempt(t, e); n != 2 {
				t.Fatal(n)
			}
			for _, c := range []struct {
				what, id string
				at       time.Time
				want     string
			}{
				{"the same bytes", "msg_1", now, `200 {"result":"known"}`},
				{"signed anew", "msg_1", now.Add(time.Minute), `200 {"result":"known"}`},
				{"under another id", "msg_2", now, `409 `},
			} {
				if a := deliver(hook, c.id, body, c.at); !strings.HasPrefix(a, c.want) {
					t.Errorf("%s: %s, want %s", c.what, a, c.want)
				}
				d, err := e.Begin(t.Context(), stet.Request{ID: id, Subject: stet.Subject{Body: []byte("1")}})
				if err != nil || d.Verdict != stet.Unresolved {
					t.Fatalf("%s: %v, %v", c.what, d.Verdict, err)
				}
			}
		})
	}
}
