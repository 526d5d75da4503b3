package reconcile

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/members"
)

// Signatures as Standard Webhooks has them (https://www.standardwebhooks.com), and the document of
// [Webhook].

// Limits of a signature. A sender has a few signatures while it changes its secret.
const (
	maxNoticeID   = 255 // bytes
	maxSignatures = 16
)

// standardSecret reads whsec_ and base64.
func standardSecret(text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "whsec_")
	key, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("reconcile: a webhook secret is whsec_ and the base64 of 24 to 64 random bytes")
	}
	return key, nil
}

func verifyStandard(h http.Header) (s signature, ok bool) {
	id, stamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	odd := strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' })
	if id == "" || len(id) > maxNoticeID || odd || err != nil {
		return s, false
	}
	var sums [][]byte
	for one := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		text, known := strings.CutPrefix(one, "v1,")
		sum, err := base64.StdEncoding.DecodeString(text)
		if known && err == nil && len(sum) == sha256.Size && len(sums) < maxSignatures {
			sums = append(sums, sum)
		}
	}
	return signature{ID: id, At: time.Unix(seconds, 0), Signs: func(key, body []byte) (good bool) {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.", id, stamp)
		_, _ = mac.Write(body)
		want := mac.Sum(nil)
		for _, sum := range sums {
			good = hmac.Equal(sum, want) || good
		}
		return good
	}}, len(sums) > 0
}

// decodeStandard reads the members, each of which may come once. If a misspelt member were ignored,
// the notice might name a record of another scope, or an attempt that is not checked (A02).
func decodeStandard(body []byte) (*notice, string) {
	n := new(notice)
	bad, ok := errors.AsType[*members.Error](members.Read(body, map[string]any{
		"scope": &n.Scope, "key": &n.Key, "downstream_key": &n.DownstreamKey, "downstream_id": &n.DownstreamID,
		"outcome": &n.Outcome, "fence": &n.Fence, "status": &n.Status, "headers": &n.Headers,
		"body_b64": &n.Body, "evidence": &n.Evidence,
	}))
	if !ok {
		return n, ""
	}
	switch bad.Kind {
	case members.Unknown:
		return n, fmt.Sprintf("The notice has the unknown member %q%s", bad.Member, cmp.Or(bad.Hint, "."))
	case members.Twice:
		return n, fmt.Sprintf("The notice has the member %q twice.", bad.Member)
	case members.Unfit:
		return n, fmt.Sprintf("The member %q has a value of another kind than documented: %s.", bad.Member, bad.Problem)
	case members.Inside:
		return n, "The notice has a name twice in its headers, or text that is no Unicode."
	case members.NoObject:
	}
	return n, "The notice is no JSON object, or something follows it."
}
