package framing

import (
	"errors"
	"net/textproto"
	"slices"
	"strings"
)

// Broken reports whether err, from reading a request's body, says that the client's framing is
// wrong: invalid chunks (RFC 9112 section 7.1), or a body of HTTP/2 that is not as long as its
// content-length (RFC 9113 section 8.1.1). A client that went away or was too slow does not have
// wrong framing.
//
// net/http gives these errors neither names nor types, except for a trailer section that cannot be
// read, so they are recognised by their texts. An unknown text does not count as broken framing: a
// client may then send its request again in vain, but never gives up one that it should send again.
func Broken(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return true
	}
	text := err.Error()
	return slices.ContainsFunc(saysBroken, func(s string) bool { return strings.Contains(text, s) })
}

// saysBroken are parts of the texts of net/http about broken framing, over HTTP/1 and HTTP/2.
var saysBroken = []string{"chunked ", "chunk length", "header line too long",
	"declared a Content-Length of", "more than declared Content-Length of"}
