package framing

import (
	"errors"
	"net/textproto"
	"slices"
	"strings"
)

// Broken reports whether err, of reading a request's body, says that the client's framing is wrong: chunks that are none (RFC 9112
// section 7.1), or a body of HTTP/2 that is not as long as its content-length (RFC 9113 section 8.1.1). A client that went away or
// was too slow has not done that.
//
// net/http gives these errors neither names nor types, except for a trailer section that cannot be read. So they are known by what
// they say, and what is not known is none of them: a client may then send its request again for nothing, but never gives up one
// that it should have sent again.
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

// saysBroken are parts of what net/http says of broken framing, over HTTP/1 and over HTTP/2.
var saysBroken = []string{"chunked ", "chunk length", "header line too long",
	"declared a Content-Length of", "more than declared Content-Length of"}
