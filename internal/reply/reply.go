// Package reply answers requests with documents.
package reply

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// The media types of documents, and of those that say why there is none (RFC 9457 section 3).
const (
	Document = "application/json"
	Problem  = "application/problem+json"
)

// JSON answers with a document of a media type.
func JSON(w http.ResponseWriter, status int, media string, doc any) {
	body, err := json.Marshal(doc)
	if err != nil {
		panic("reply: a document that is not JSON: " + err.Error())
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Refuse answers with a problem document, which no cache keeps.
func Refuse(w http.ResponseWriter, status int, problem any) {
	w.Header().Set("Cache-Control", "no-store")
	JSON(w, status, Problem, problem)
}

// Refusal is a problem document (RFC 9457) without members of its own.
type Refusal struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

// These are the refusals that the webhook and the admin API have in common.
var (
	NotFound     = Refusal{Status: 404, Code: "not-found", Title: "There is no such thing"}
	Contradicted = Refusal{Status: 409, Code: "contradicted", Title: "The handler's answer says otherwise"}
	StateChanged = Refusal{Status: 409, Code: "state-changed", Title: "The record's state does not allow this"}
)
