package stet

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	"github.com/dunglas/httpsfv"
	"github.com/stet-dev/stet/internal/names"
	"github.com/stet-dev/stet/internal/tag"
)

// Scope is the namespace of a key: a tenant, or a tenant and a principal. The same key in two
// scopes is two keys. A scope comes from the caller's identity, never from the request's body. It
// holds nothing that changes while the principal stays the same: a session token would, and a
// refreshed token must still find its key.
type Scope string

// Key is an idempotency key as parsed: without quotes, parameters or surrounding space. Keys are
// secrets of their clients: a Key prints as [key] with every verb, as text and as JSON. There are
// two exceptions that Go does not let a type change: an unexported field of a struct that is
// printed, and the keys of a map that encoding/json writes. Convert a Key to string to store it.
type Key string

// ID names a record: a key within a scope. The two parts are never joined by a delimiter, so that
// no value of one can reach into the other.
type ID struct {
	Scope Scope
	Key   Key
}

const hiddenKey = "[key]"

// Format implements [fmt.Formatter]: it hides the key whatever the verb.
func (Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, hiddenKey) }

// MarshalText implements [encoding.TextMarshaler]: it hides the key. Stores write string(key).
func (Key) MarshalText() ([]byte, error) { return []byte(hiddenKey), nil }

// LogValue implements [slog.LogValuer]: it hides the key.
func (Key) LogValue() slog.Value { return slog.StringValue(hiddenKey) }

// Weak reports whether the key is too short or too uniform to be random. Such keys are accepted,
// and counted: a client that numbers its requests will one day collide with another that does.
func (k Key) Weak() bool {
	const enough, varied = 16, 6
	if len(k) < enough {
		return true
	}
	var seen [256]bool
	distinct := 0
	for i := range len(k) {
		if !seen[k[i]] {
			seen[k[i]] = true
			distinct++
		}
	}
	return distinct < varied
}

// Syntax is the grammar by which an Idempotency-Key field is read.
type Syntax uint8

const (
	// Lenient accepts an RFC 9651 String ("k") or a bare value (k); both are the same key. A bare
	// value is visible ASCII without `"`, `,`, `;` and `\`.
	Lenient Syntax = iota
	// SFString accepts only an RFC 9651 Item of type String, as
	// draft-ietf-httpapi-idempotency-key-header section 2.1 requires.
	SFString
	// Opaque accepts the field value as sent, quotes included, without the whitespace around it.
	Opaque
)

var syntaxWords = [...]string{Lenient: "lenient", SFString: "sf-string", Opaque: "opaque"}

// String returns the word of the configuration file.
func (s Syntax) String() string { return names.Of("Syntax", syntaxWords[:], s) }

// MarshalText returns the word of [Syntax.String]. The error says that there is no such key syntax.
func (s Syntax) MarshalText() ([]byte, error) { return names.Text("key syntax", syntaxWords[:], s) }

// UnmarshalText accepts the words of [Syntax.String]: lenient, sf-string and opaque. The error
// lists them.
func (s *Syntax) UnmarshalText(text []byte) error {
	return names.Parse("key syntax", syntaxWords[:], text, s)
}

// KeyRule says which keys are accepted. The zero value is the lenient syntax and 1 to 255 bytes.
type KeyRule struct {
	Syntax  Syntax
	MinLen  int            // bytes of the parsed key; 0 means 1
	MaxLen  int            // bytes of the parsed key; 0 means [DefaultMaxKeyLen]
	Pattern *regexp.Regexp // must match the parsed key, where set: as written, so anchor it
}

// DefaultMaxKeyLen is the length in bytes of the longest key that a [KeyRule] with MaxLen 0
// accepts.
const DefaultMaxKeyLen = 255

// KeyError says why a key is refused. It never quotes the key.
type KeyError struct{ Reason string }

func (e *KeyError) Error() string { return "invalid idempotency key: " + e.Reason }

// Parse reads the field lines of one request. Several lines are refused. They are not merged, and
// the first does not win: RFC 9651 section 4.2 would join them, and two proxies would disagree on
// which one counts. The error is a [*KeyError].
func (r KeyRule) Parse(lines []string) (Key, error) {
	if len(lines) != 1 {
		return "", &KeyError{"the field was sent more than once; send exactly one"}
	}
	// White space around a value is no part of it (RFC 9110 section 5.5).
	k, err := r.parseLine(strings.Trim(lines[0], " \t"))
	if err != nil {
		return "", err
	}
	return k, r.check(k)
}

func (r KeyRule) parseLine(v string) (Key, error) {
	if r.Syntax == Opaque {
		return Key(v), nil
	}
	switch {
	case strings.HasPrefix(v, `"`):
		return parseString(v)
	case r.Syntax == SFString:
		return "", &KeyError{`it must be a quoted string as in RFC 9651, such as "8e03978e-40d5-43e8-bc93-6894a57f9324"`}
	}
	if !printable(v) || strings.ContainsAny(v, ` ",;\`) {
		return "", &KeyError{"an unquoted key is visible ASCII without quotes, commas, semicolons or backslashes"}
	}
	return Key(v), nil
}

// parseString reads an RFC 9651 String item. Its parameters are ignored (section 2.3 discourages
// refusing unknown ones).
func parseString(v string) (Key, error) {
	// The usual case: nothing is escaped, and there are no parameters.
	if inner := v[1:]; strings.IndexByte(inner, '"') == len(inner)-1 && len(inner) > 0 {
		if inner = inner[:len(inner)-1]; printable(inner) && strings.IndexByte(inner, '\\') < 0 {
			return Key(inner), nil
		}
	}
	item, err := httpsfv.UnmarshalItem([]string{v})
	if err != nil {
		return "", &KeyError{`it is not a well-formed RFC 9651 string: one pair of double quotes, printable ASCII, only \" and \\ escaped`}
	}
	s, ok := item.Value.(string)
	if !ok {
		return "", &KeyError{"it is not an RFC 9651 string"}
	}
	return Key(s), nil
}

// printable reports whether s is ASCII without control characters.
func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

func (r KeyRule) check(k Key) error {
	minLen, maxLen := max(r.MinLen, 1), cmp.Or(r.MaxLen, DefaultMaxKeyLen)
	switch {
	case !printable(string(k)):
		return &KeyError{"only printable ASCII is allowed"}
	case strings.TrimLeft(string(k), " ") == "":
		return &KeyError{"it is empty or blank"}
	case len(k) < minLen:
		return &KeyError{fmt.Sprintf("it is shorter than %d characters", minLen)}
	case len(k) > maxLen:
		return &KeyError{fmt.Sprintf("it is longer than %d characters", maxLen)}
	case r.Pattern != nil && !r.Pattern.MatchString(string(k)):
		return &KeyError{"it does not have the published format " + r.Pattern.String()}
	}
	return nil
}

// Quote returns the key as an RFC 9651 String: how it is echoed to clients and forwarded to
// upstreams. A parsed key is printable ASCII; for other bytes Quote panics rather than write a
// broken header.
func (k Key) Quote() string {
	s := string(k)
	if !printable(s) {
		panic("stet: an unparsed key cannot be quoted")
	}
	if strings.IndexByte(s, '"') >= 0 || strings.IndexByte(s, '\\') >= 0 {
		s = escaper.Replace(s)
	}
	return `"` + s + `"`
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Tag returns how a record is shown in logs, events and consoles: "k_" and 16 hex digits of
// HMAC-SHA256 under the Pepper, over the length-prefixed scope and key. Records are stored with it,
// and found by it: see [Operator.ByTag].
func (e *Engine) Tag(id ID) string { return e.tags.of(id, "") }

// stamp returns the tag that h is to be written with. The one that it was read with may be of
// another Pepper.
func (e *Engine) stamp(h *Head) string { return e.tags.of(h.ID, h.Tag) }

// tags makes tags. Every request needs one, so the makers are reused.
type tags struct{ makers sync.Pool }

// maker makes one tag at a time. The texts of many tags share their memory. It remembers the last
// one: a request writes its record, reports it in an event, and writes it again.
type maker struct {
	mac   hash.Hash
	buf   []byte
	texts strings.Builder

	last ID
	made string // of last
}

const textsSize = 1 << 10

func newTags(pepper []byte) *tags {
	t := &tags{}
	t.makers.New = func() any { return &maker{mac: hmac.New(sha256.New, pepper)} }
	return t
}

// of makes the tag of id. had is the one that it may turn out to be, whose text is then used again.
func (t *tags) of(id ID, had string) string {
	m := t.makers.Get().(*maker)
	defer t.makers.Put(m)
	if m.made != "" && m.last == id {
		return m.made
	}
	m.buf = m.buf[:0]
	for _, part := range [...]string{string(id.Scope), string(id.Key)} {
		m.buf = append(binary.BigEndian.AppendUint64(m.buf, uint64(len(part))), part...)
	}
	m.mac.Reset()
	_, _ = m.mac.Write(m.buf)
	m.buf = m.mac.Sum(m.buf[:0])
	m.buf = tag.Append(m.buf[:0], binary.BigEndian.Uint64(m.buf))
	m.last = id
	if string(m.buf) == had {
		m.made = had
		return had
	}
	if m.texts.Cap()-m.texts.Len() < len(m.buf) {
		m.texts.Reset()
		m.texts.Grow(textsSize)
	}
	_, _ = m.texts.Write(m.buf)
	all := m.texts.String()
	m.made = all[len(all)-len(m.buf):]
	return m.made
}
