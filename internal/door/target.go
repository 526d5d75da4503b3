package door

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/hexdigit"
)

// Path returns the path of a request target in origin-form, absolute-form or asterisk-form (RFC
// 9112 section 3.2), as it was sent.
func Path(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	_, rest, absolute := strings.Cut(path, "://")
	if !absolute {
		return path
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// Asked returns the path that the client asked for, and the request's own, which a router may have
// cut off or changed. Both are escaped.
func Asked(r *http.Request) (asked, own string) {
	own = r.URL.EscapedPath()
	if sent := Path(r.RequestURI); sent == own || sent == "" {
		return own, own
	}
	u, err := url.ParseRequestURI(r.RequestURI) // as net/http has read it
	if err != nil {
		return own, own
	}
	return u.EscapedPath(), own
}

// Decoded returns a path percent-decoded until nothing is left to decode, because %252F is a slash
// to a reader that decodes twice.
func Decoded(path string) string { return string(decode(nil, path)) }

var noPath = Fault{badTarget, "The request's target names no path of this server. Send one that begins with a slash."}

// target checks a request's target as it was sent or, if the request was not received, as its URL
// would be sent.
func (d *Rules) target(r *http.Request) *Fault {
	if r.URL.Opaque != "" {
		return &noPath
	}
	sent, query := r.RequestURI, "" // RequestURI holds the query, too
	length := len(sent)
	if length == 0 {
		sent, query = r.URL.EscapedPath(), r.URL.RawQuery
		length = len(sent) + len("?") + len(query)
	}
	if d.MaxTarget > 0 && length > d.MaxTarget {
		return &Fault{badTarget, "The request's target is longer than the " + strconv.Itoa(d.MaxTarget) +
			" bytes that are allowed. Send what is long in the body."}
	}
	found := classOf(sent) | classOf(query)
	switch {
	case found&odd != 0:
		return strange(sent + query)
	case found&suspect != 0:
		return ambiguous(Path(sent))
	}
	return nil
}

// class is a set of properties that bytes of a target may have.
type class uint8

const (
	odd     class = 1 << iota // never plain in a target: controls, the space, and two bytes that end or divide it for some readers
	suspect                   // a path with it may have several meanings
)

var classes = func() (of [256]class) {
	for c := range ' ' + 1 {
		of[c] = odd
	}
	for c, is := range map[byte]class{'#': odd, '\\': odd, 0x7f: odd, '%': suspect, ';': suspect, '.': suspect} {
		of[c] = is
	}
	return of
}()

func classOf(s string) (found class) {
	for i := range len(s) {
		found |= classes[s[i]]
	}
	return found
}

// strange returns the fault of a target with an odd byte (RFC 3986 section 2), which ends the
// target or a segment of it for some readers.
func strange(target string) *Fault {
	switch target[strings.IndexFunc(target, func(c rune) bool { return c < 0x80 && classes[c] == odd })] {
	case '#':
		return &Fault{badTarget, "The request's target holds a number sign (#), which ends it for some readers. Leave the fragment out, or send %23."}
	case '\\':
		return &Fault{badTarget, "The request's target holds a backslash, which is a slash to some readers. Send a slash or, in a query, %5C."}
	case ' ':
		return &Fault{badTarget, "The request's target holds a space, which ends it for some readers. Send %20."}
	}
	return &Fault{badTarget, "The request's target holds a control character. Leave it out or, in a query, percent-encode it."}
}

// ambiguous looks for paths that lead to different places, depending on whether a reader decodes
// them, once or more often, before or after it resolves dot segments, takes an encoded slash for a
// slash, cuts segments at a semicolon as servlet containers do, and merges slashes. Such a path has
// a dot segment that is not written as one, or a plain .. that removes what is not one segment to
// all readers.
func ambiguous(path string) *Fault {
	if strings.IndexByte(path, '%') < 0 && strings.IndexByte(path, ';') < 0 && !strings.Contains(path, "/.") {
		return nil // the usual one
	}
	var room [32]bool
	var text [128]byte
	one := room[:0] // for each segment that no dot segment has removed: whether it is exactly one
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch segment {
		case ".":
			continue
		case "..":
			if last := len(one) - 1; last >= 0 {
				if !one[last] {
					return &Fault{badTarget, "A .. in the request's path follows an empty segment or an encoded slash, and readers differ in what it removes. " +
						"Resolve dot segments before sending."}
				}
				one = one[:last]
			}
			continue
		}
		single, f := judge(decode(text[:0], segment))
		if f != nil {
			return f
		}
		one = append(one, single)
	}
	return nil
}

// judge checks a decoded segment, and reports whether it is exactly one segment to all readers.
func judge(segment []byte) (one bool, f *Fault) {
	text := string(segment)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\t' || c == '\n': // text has them
		case c < ' ' || c == 0x7f:
			return false, &Fault{badTarget, "The request's path holds an encoded control character, such as %00 or %0D. Leave it out."}
		case c == '\\':
			return false, &Fault{badTarget, "The request's path holds an encoded backslash, which is a slash to some readers. Leave it out."}
		}
	}
	one = strings.IndexByte(text, '/') < 0
	for piece := range strings.SplitSeq(text, "/") {
		switch piece, _, _ = strings.Cut(piece, ";"); piece {
		case ".", "..":
			return false, &Fault{badTarget, "The request's path holds a dot segment in disguise, such as %2e%2e, ..%2F or ..; in place of two dots between slashes. " +
				"Resolve dot segments before sending."}
		case "":
			one = false
		}
	}
	return one, nil
}

// decode appends s to out, which is empty, percent-decoded until nothing is left to decode. It
// looks at every byte once, however often the byte was encoded.
func decode(out []byte, s string) []byte {
	for i := range len(s) {
		out = append(out, s[i])
		for n := len(out); n >= 3 && out[n-3] == '%'; n = len(out) {
			high, low := hexdigit.Value(out[n-2]), hexdigit.Value(out[n-1])
			if high < 0 || low < 0 {
				break
			}
			out = append(out[:n-3], byte(high<<4|low))
		}
	}
	return out
}
