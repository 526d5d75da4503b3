package stet

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/names"
)

// BodyMode says how a [Recipe] reads a request body.
type BodyMode uint8

// The body modes. All of them compare the media type too, without its parameters.
const (
	// BodyAuto goes by the media type. JSON is compared by its values: whitespace, the order of
	// names, escapes and the spelling of numbers do not matter, and numbers are exact decimals, so
	// that 1, 1.0 and 1e0 are the same and 9007199254740993 is not …992. Urlencoded forms, and
	// queries, are compared by their pairs in any order, but for those of one name, and those with
	// "[]" in their names, which spell lists (items[][id]=1): all of these count in the order in
	// which they were sent. Multipart bodies are compared by their parts, whatever the boundary.
	// Everything else, and what cannot be read as what it claims to be, is compared byte by byte.
	BodyAuto BodyMode = iota
	// BodyJCS is BodyAuto with JSON as RFC 8785 has it. Its numbers are doubles: two amounts beyond
	// 2^53 can be the same.
	BodyJCS
	// BodyRaw compares bytes.
	BodyRaw
	// BodyFields compares only the listed fields of a JSON body, as BodyAuto does; absent is not
	// null. What is not JSON is compared whole, as BodyAuto does, and so is a body that has none of
	// the fields.
	BodyFields
)

var bodyModes = [...]string{BodyAuto: "auto", BodyJCS: "jcs", BodyRaw: "raw", BodyFields: "fields"}

// String returns the mode's word in recipes and configuration.
func (m BodyMode) String() string { return names.Of("BodyMode", bodyModes[:], m) }

// MarshalText returns the word of [BodyMode.String]. The error says that there is no such mode.
func (m BodyMode) MarshalText() ([]byte, error) { return names.Text("body mode", bodyModes[:], m) }

// UnmarshalText accepts the words of [BodyMode.String]: auto, jcs, raw and fields. The error lists
// them.
func (m *BodyMode) UnmarshalText(text []byte) error {
	return names.Parse("body mode", bodyModes[:], text, m)
}

// Recipe is how a fingerprint is made. The zero value, "3 auto", is right for most routes.
//
// Its text is stored with every record, and a retry is fingerprinted by the stored recipe. So a
// route's recipe may be changed at any time: it takes effect for keys that are new. The same goes
// for the rules of this package: the text names their version, and a recipe that was parsed keeps
// it.
type Recipe struct {
	version uint8 // 0 is today's
	// Body is how the body is read.
	Body BodyMode
	// Fields are the JSON pointers (RFC 6901) that BodyFields compares, in no particular order.
	Fields []string
	// Exclude are JSON pointers whose values do not count, such as a client's send time. They work
	// on JSON bodies in every mode but BodyRaw. The other elements of an array keep their indexes.
	Exclude []string
	// ExcludeFields are names of fields that do not count, such as a timestamp and the signature over
	// it: in queries, and in the bodies of forms (urlencoded, or multipart/form-data) in every mode
	// but BodyRaw. A query or form that cannot be read counts whole.
	ExcludeFields []string
	// Headers are the request header fields that count, by name in any case. None do otherwise, but
	// for Content-Type and Content-Encoding as part of the body, and Content-Range and Upload-Offset,
	// which say what part of a whole the body is.
	Headers []string
	// Host makes the host that a request is for count, as [Subject].Host has it: one service under
	// several names then answers each name by itself.
	Host bool
	// Decode undoes Content-Encoding gzip first, up to 4 MiB, so that a compressed retry of a plain
	// request is the same. Without it the body counts as it was sent.
	Decode bool
}

// maxRecipe is how long the text of a recipe may be, in bytes. It is in every record's head.
const maxRecipe = 2048

// errRecipe is what parseRecipe returns for a text that this version of Stet did not write and
// cannot compute.
var errRecipe = errors.New("stet: not a fingerprint recipe of this version")

// The versions stand for everything that turns a request into a Sum. A change of what is hashed
// needs a new one, and the old way stays beside it, or honest retries of stored requests become
// mismatches (I9).
const (
	// version1 took every JSON body without any of the listed fields for the same, and ordered form
	// fields by their whole names, so that lists of objects as Rack and PHP spell them lost the order
	// of their elements.
	version1 = 1
	// version2 compared what a router had left of the path alone, and took the parts of one upload for
	// the same. Of multipart bodies it read multipart/form-data alone, without text around the parts, and
	// it read JSON as a form where Content-Type said so.
	version2 = 2
	version3 = 3

	recipeVersion = version3
)

// partial are header fields that say what part of a whole a body is (RFC 9110 section 14.5).
var partial = [...]string{"Content-Range", "Upload-Offset"}

// The words a recipe's text is made of.
const (
	wordDecode    = "decode"
	wordHost      = "host"
	prefixField   = "+"
	prefixExclude = "-"
	prefixHeader  = "h:"
	prefixName    = "x:"
)

// String returns the recipe's canonical text: the version, the body mode, then what differs from
// the default, ordered and without repetition, such as
//
//	3 auto -/meta/sent_at h:api-version x:timestamp
//	3 fields +/amount +/currency
//
// In pointers and names, percent signs and all that is not visible ASCII are percent-encoded.
func (r Recipe) String() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(int(cmp.Or(r.version, recipeVersion))) + " " + r.Body.String())
	if r.Decode {
		b.WriteString(" " + wordDecode)
	}
	if r.Host { // an older program does not know the word, and refuses the record instead of comparing less
		b.WriteString(" " + wordHost)
	}
	writeWords(&b, prefixField, r.Fields)
	writeWords(&b, prefixExclude, r.Exclude)
	headers := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = strings.ToLower(h)
	}
	writeWords(&b, prefixHeader, headers)
	writeWords(&b, prefixName, r.ExcludeFields)
	return b.String()
}

func writeWords(b *strings.Builder, prefix string, words []string) {
	for _, w := range sortedSet(words) {
		b.WriteString(" " + prefix)
		for i := range len(w) {
			if c := w[i]; c <= ' ' || c >= 0x7f || c == '%' {
				fmt.Fprintf(b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
	}
}

func sortedSet(words []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(words)))
}

// parseRecipe reads what [Recipe.String] wrote, and nothing else: s == r.String() for the recipe it
// returns. Its errors are [errRecipe] and say what is wrong.
func parseRecipe(s string) (r Recipe, err error) {
	defer func() {
		if err != nil {
			r, err = Recipe{}, fmt.Errorf("%w: %w", errRecipe, err)
		}
	}()
	if len(s) > maxRecipe {
		return r, fmt.Errorf("longer than %d bytes", maxRecipe)
	}
	words := strings.Split(s, " ")
	switch version, err := strconv.Atoi(words[0]); {
	case err != nil || version < version1 || version > recipeVersion:
		return r, fmt.Errorf("unknown version %q, this is version %d", words[0], recipeVersion)
	case version < recipeVersion:
		r.version = uint8(version)
	}
	if len(words) < 2 {
		return r, errors.New("no body mode")
	}
	if err := r.Body.UnmarshalText([]byte(words[1])); err != nil {
		return r, err
	}
	for _, word := range words[2:] {
		if err := r.add(word); err != nil {
			return r, err
		}
	}
	if err := r.Validate(); err != nil {
		return r, err
	}
	if text := r.String(); text != s {
		return r, fmt.Errorf("not in canonical form: %q should be %q", s, text)
	}
	return r, nil
}

func (r *Recipe) add(word string) error {
	switch word {
	case wordDecode:
		r.Decode = true
		return nil
	case wordHost:
		r.Host = true
		return nil
	}
	for _, list := range []struct {
		prefix string
		to     *[]string
	}{{prefixField, &r.Fields}, {prefixExclude, &r.Exclude}, {prefixHeader, &r.Headers}, {prefixName, &r.ExcludeFields}} {
		if arg, ok := strings.CutPrefix(word, list.prefix); ok {
			plain, err := url.PathUnescape(arg)
			if err != nil {
				return fmt.Errorf("bad percent-encoding in %q", arg)
			}
			*list.to = append(*list.to, plain)
			return nil
		}
	}
	return fmt.Errorf("unknown word %q", word)
}

// Validate reports why the recipe cannot be used, naming the field.
func (r Recipe) Validate() error {
	if err := recipeBounds.Check(&r); err != nil {
		return err
	}
	switch {
	case r.Body == BodyFields && len(r.Fields) == 0:
		return errors.New("recipe: Fields: body mode fields needs at least one JSON pointer")
	case r.Body != BodyFields && len(r.Fields) > 0:
		return fmt.Errorf("recipe: Fields: only body mode fields compares single fields, this is %s", r.Body)
	case r.Body == BodyRaw && len(r.Exclude) > 0:
		return errors.New("recipe: Exclude: body mode raw compares all bytes")
	}
	if _, err := pointers(r.Fields); err != nil {
		return fmt.Errorf("recipe: Fields: %w", err)
	}
	if _, err := pointers(r.Exclude); err != nil {
		return fmt.Errorf("recipe: Exclude: %w", err)
	}
	if slices.Contains(r.ExcludeFields, "") {
		return errors.New("recipe: ExcludeFields: a field without a name is no field")
	}
	if slices.Contains(r.Exclude, "") {
		return errors.New(`recipe: Exclude: "" is the whole body, nothing would be left to compare`)
	}
	for _, h := range r.Headers {
		if !canon.IsToken(h) {
			return fmt.Errorf("recipe: Headers: %q is not a header field name", h)
		}
		if slices.Contains(transportHeaders[:], strings.ToLower(h)) {
			if strings.EqualFold(h, wordHost) {
				return fmt.Errorf("recipe: Headers: %s is no header to net/http: set Host, which compares its one form", h)
			}
			return fmt.Errorf("recipe: Headers: %s says how a message travels, not what it asks for", h)
		}
	}
	if n := len(r.String()); n > maxRecipe {
		return fmt.Errorf("the recipe is %d bytes long, at most %d fit a record", n, maxRecipe)
	}
	return nil
}

// transportHeaders may differ between a request and its honest retry (case FP-27), and HTTP
// libraries keep most of them, Host among them, to themselves, so that listing one would silently
// compare nothing.
var transportHeaders = [...]string{"connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade"}

func pointers(texts []string) (ps []canon.Pointer, err error) {
	for _, s := range sortedSet(texts) {
		p, err := canon.ParsePointer(s)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// canonicalHeader spells a field name as net/http does in its maps: Api-Version.
func canonicalHeader(name string) string {
	b := []byte(strings.ToLower(name))
	for i := range b {
		if (i == 0 || b[i-1] == '-') && 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return string(b)
}

// maxRecipes bounds how many recipes found in records are kept ready; there are as many as
// configurations had in a retention.
const maxRecipes = 64

// recipes holds what computes fingerprints by the recipes of records.
type recipes struct {
	mu    sync.Mutex
	ready map[string]*Fingerprinter
}

func (r *recipes) get(text string) (*Fingerprinter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.ready[text]; ok {
		return f, nil
	}
	recipe, err := parseRecipe(text)
	if err != nil {
		return nil, err
	}
	f := recipe.compile()
	if r.ready == nil || len(r.ready) >= maxRecipes {
		r.ready = make(map[string]*Fingerprinter)
	}
	r.ready[text] = f
	return f, nil
}
