// Package reply answers requests with documents.
package reply

import (
	"encoding/json"
	"net/http"
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
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
