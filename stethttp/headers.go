package stethttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/framing"
)

// neverReplayed are headers of one exchange, not of the result: framing, and what the sender of
// each message says of itself. Replaying one would distort the replay's framing or give an old
// time. The hop-by-hop fields (RFC 9110 section 7.6.1) are of this kind, too.
var neverReplayed = map[string]bool{
	"Content-Length": true, "Date": true, "Server": true, "Age": true, "Via": true, rateLimit: true, rateLimitPolicy: true, "Www-Authenticate": true,
	"Idempotency-Key": true, "Idempotency-Expires": true, "Idempotent-Replayed": true, "Idempotent-Replay": true,
	outcomeHeader: true,
}

const (
	outcomeHeader = "Stet-Outcome" // from the handler; consumed, not sent
	setCookie     = "Set-Cookie"
)

// storable reports whether a response header is part of the result. A handler may write a name into
// the map in another spelling.
func (g *Guard) storable(name string, hop *framing.Names) bool {
	form := door.Name(name)
	switch {
	case neverReplayed[form], framing.HopByHop(form), form == g.keyForm, slices.Contains(g.drop, form), hop.Has(http.CanonicalHeaderKey(name)):
		return false
	case form == setCookie:
		return g.cfg.Replay.KeepSetCookie
	}
	return true
}

// storables returns the fields that are storable: fields itself if all are.
func (g *Guard) storables(fields []stet.Field, hop *framing.Names) []stet.Field {
	other := func(f stet.Field) bool { return !g.storable(f.Name, hop) }
	if !slices.ContainsFunc(fields, other) {
		return fields
	}
	return slices.DeleteFunc(slices.Clone(fields), other)
}

// Replayable returns the fields of a response that are part of the result, for a record that is
// ended with a response which the layer did not see. It leaves out the fields of one exchange
// (hop-by-hop, framing, dates), those that Connection lists, and Set-Cookie, which is the session
// of the client that got the first answer.
func Replayable(fields []stet.Field) []stet.Field {
	var lines []string
	for _, f := range fields {
		if http.CanonicalHeaderKey(f.Name) == "Connection" {
			lines = append(lines, f.Value)
		}
	}
	hop := framing.Listed(lines)
	var defaults Guard
	return defaults.storables(slices.Clone(fields), &hop)
}

// fieldsOf returns a header's lines sorted by name, without those that belong into the trailer. The
// lines of one name stay in order. They are put into few if it has room.
func fieldsOf(h http.Header, few []stet.Field) []stet.Field {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	announced := framing.Listed(h["Trailer"])
	fields := few
	if n > cap(fields) {
		fields = make([]stet.Field, 0, n)
	}
	for name, values := range h {
		if announced.Has(name) || strings.HasPrefix(name, http.TrailerPrefix) || name == "Trailer" {
			continue
		}
		for _, v := range values {
			fields = append(fields, stet.Field{Name: name, Value: cleanValue(v)})
		}
	}
	byName(fields)
	return fields
}

// byName sorts fields by name; the lines of one name stay in order.
func byName(fields []stet.Field) {
	slices.SortStableFunc(fields, func(a, b stet.Field) int { return strings.Compare(a.Name, b.Name) })
}

// cleanValue replaces what net/http replaces in a value on the wire, so that a handler's value
// cannot split the response (RFC 9110 section 5.5), neither when it is first sent nor when it is
// replayed.
func cleanValue(v string) string {
	if strings.ContainsAny(v, "\r\n\x00") {
		return strings.Map(func(r rune) rune {
			if r == '\r' || r == '\n' || r == 0 {
				return ' '
			}
			return r
		}, v)
	}
	return v
}

// setFields sets h's lines to the fields'. One array holds all values.
func setFields(h http.Header, fields []stet.Field) {
	values := make([]string, len(fields))
	for i := 0; i < len(fields); {
		j := i
		for ; j < len(fields) && fields[j].Name == fields[i].Name; j++ {
			values[j] = fields[j].Value
		}
		h[fields[i].Name] = values[i:j:j]
		i = j
	}
}

// setResult sets the headers of a result. If it has no Content-Type, none is guessed from its body.
func setResult(h http.Header, fields []stet.Field) {
	setFields(h, fields)
	if _, set := h["Content-Type"]; !set {
		h["Content-Type"] = nil
	}
}

func headerBytes(fields []stet.Field) (n int64) {
	for _, f := range fields {
		n += int64(len(f.Name) + len(f.Value) + len(": \r\n"))
	}
	return n
}
