package stet

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/stet-dev/stet/internal/canon"
)

// maxDecoded is how large a body may become by [Recipe.Decode], in bytes. A larger one counts as it
// was sent.
const maxDecoded = 4 << 20

// Fingerprinter is a [Recipe] that is ready for use. It is safe for concurrent use. It keeps only
// scratch space: a few KiB for each call at a time and, while a JSON body is read, at worst about
// 20 bytes for each byte of it. A document deeper than 512 levels or of more than a million values
// is taken as bytes.
type Fingerprinter struct {
	recipe  string
	body    BodyMode
	fields  []canon.Pointer
	exclude []canon.Pointer
	headers []string // as spelled in maps, in order
	partial []string // those that count besides where a request has them
	host    bool
	names   []string // of fields that do not count
	decode  bool
	version uint8
	pool    sync.Pool // of *scratch
}

// Compile makes the recipe ready for many requests. The error is that of [Recipe.Validate].
func (r Recipe) Compile() (*Fingerprinter, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return r.compile(), nil
}

// compile is Compile for a recipe that is known to be valid.
func (r Recipe) compile() *Fingerprinter {
	f := &Fingerprinter{recipe: r.String(), body: r.Body, host: r.Host, decode: r.Decode, names: r.ExcludeFields,
		version: cmp.Or(r.version, recipeVersion)}
	f.fields, _ = pointers(r.Fields)
	f.exclude, _ = pointers(r.Exclude)
	for _, h := range r.Headers {
		f.headers = append(f.headers, canonicalHeader(h))
	}
	f.headers = sortedSet(f.headers)
	if f.version >= version3 {
		f.partial = slices.DeleteFunc(slices.Clone(partial[:]), func(name string) bool { return slices.Contains(f.headers, name) })
	}
	return f
}

// scratch is what one Fingerprint call needs.
type scratch struct {
	sha   hash.Hash
	w     *canon.Writer
	doc   canon.Doc
	form  canon.Form
	parts canon.Multipart
	query []byte
	gz    gunzip
	sum   [sha256.Size]byte
}

func newScratch() *scratch {
	sha := sha256.New()
	return &scratch{sha: sha, w: canon.NewWriter(sha)}
}

// The tags of what is hashed, in the order in which it is. A body's tag says which form its bytes
// have, so that a body taken byte by byte never equals one that was read.
const (
	tagRecipe   = 'v'
	tagMethod   = 'm'
	tagPath     = 'p'
	tagRouted   = 'r' // a path that was changed on its way
	tagPairs    = 'q' // a query by its pairs
	tagRawQuery = 'Q' // a query that cannot be read
	tagHost     = 'a'
	tagHeaders  = 'h'
	tagPartial  = 'o'
	tagBody     = 'b'

	formEmpty     = 'e'
	formRaw       = 'r' // the recipe or the media type asks for bytes
	formRefused   = 'x' // bytes, since they are not what they claim to be
	formExact     = 'j'
	formJCS       = 'c'
	formFields    = 'p'
	formPairs     = 'f'
	formMultipart = 'm'

	typeAbsent  = '-'
	typeEssence = 't'
	typeAsSent  = 'T' // no valid media type, several, or one whose parameters are needed
)

// Fingerprint takes the fingerprint of a request. It cannot fail: what cannot be read as what it
// claims to be is taken byte by byte.
func (f *Fingerprinter) Fingerprint(s *Subject) Fingerprint {
	x, ok := f.pool.Get().(*scratch)
	if !ok {
		x = newScratch()
	}
	fp := Fingerprint{Recipe: f.recipe}
	w := x.w
	w.Reset()
	w.Byte(tagRecipe)
	w.String(f.recipe) // in the method's digest too: only fingerprints of one recipe are compared by parts
	w.Byte(tagMethod)
	w.String(s.Method)
	method := w.Cut()
	w.Byte(tagPath)
	f.writePath(w, s)
	fp.Parts[partPath] = w.Cut()
	f.writeQuery(x, s.RawQuery)
	fp.Parts[partQuery] = w.Cut()
	fp.Parts[partHeaders] = f.writeHeaders(w, s)
	w.Byte(tagBody)
	media, sent := f.writeBody(x, s)
	fp.Parts[partMethod] = fold(method)<<16 | media
	fp.Parts[partBody] = fold(w.Cut())<<16 | sent

	fp.Sum = x.finish()
	f.pool.Put(x)
	return fp
}

// finish hashes what was written. When all of it is still in the buffer, that is one call.
func (x *scratch) finish() [sha256.Size]byte {
	if all, whole := x.w.Whole(); whole {
		return sha256.Sum256(all)
	}
	x.w.Flush()
	x.sha.Sum(x.sum[:0])
	x.sha.Reset()
	return x.sum
}

// writePath writes the path that was asked for, and what it was changed to where that is more than
// cut off: a handler may pass requests of its own on, which differ in nothing else.
func (f *Fingerprinter) writePath(w *canon.Writer, s *Subject) {
	if f.version < version3 {
		w.String(cmp.Or(s.Routed, s.Path))
		return
	}
	w.String(s.Path)
	if !strings.HasSuffix(s.Path, s.Routed) {
		w.Byte(tagRouted)
		w.String(s.Routed)
	}
}

func (f *Fingerprinter) writeQuery(x *scratch, raw string) {
	if raw == "" {
		x.w.Byte(tagPairs)
		x.w.Uint(0)
		return
	}
	x.query = append(x.query[:0], raw...)
	if x.form.Parse(x.query) {
		x.w.Byte(tagPairs)
		f.writePairs(x)
	} else {
		x.w.Byte(tagRawQuery)
		x.w.String(raw)
	}
	x.form.Release()
}

func (f *Fingerprinter) writePairs(x *scratch) {
	if len(f.names) > 0 {
		x.form.Drop(f.names)
	}
	if f.version == version1 {
		x.form.WriteByName(x.w)
	} else {
		x.form.Write(x.w)
	}
}

// writeHeaders writes the host if it counts, and the values of the listed fields, one list for
// each, so that two field lines are not one with a comma. It returns their digests.
func (f *Fingerprinter) writeHeaders(w *canon.Writer, s *Subject) (digests uint32) {
	before, parts := 0, len(f.headers)+len(f.partial)
	if f.host {
		before, parts = 1, parts+1
		w.Byte(tagHost)
		w.String(s.Host)
		digests = share(w.Cut(), 0, parts)
	}
	w.Byte(tagHeaders)
	w.Uint(len(f.headers))
	w.Cut()
	for i, name := range f.headers {
		writeValues(w, s.Header[name])
		digests |= share(w.Cut(), before+i, parts)
	}
	for i, name := range f.partial {
		if values := s.Header[name]; len(values) > 0 { // hardly ever
			w.Byte(tagPartial)
			w.String(name)
			writeValues(w, values)
			digests |= share(w.Cut(), before+len(f.headers)+i, parts)
		}
	}
	return digests
}

func writeValues(w *canon.Writer, values []string) {
	w.Uint(len(values))
	for _, v := range values {
		w.String(trimOWS(v))
	}
}

// trimOWS cuts off what RFC 9110 section 5.6.3 calls optional white space.
func trimOWS(s string) string { return strings.Trim(s, " \t") }

// content is a body and what its headers say about it.
type content struct {
	types  []string // Content-Type
	coding []string // Content-Encoding; nil when decoded or identity
	bytes  []byte
}

// writeBody returns digests of 16 bits of the body's media type, 0 without a body, and of the body
// as it was sent. What was written since the last cut is what is compared of it.
func (f *Fingerprinter) writeBody(x *scratch, s *Subject) (media, sent uint32) {
	c := content{types: s.Header["Content-Type"], coding: s.Header["Content-Encoding"], bytes: s.Body}
	if len(c.coding) == 1 && strings.EqualFold(trimOWS(c.coding[0]), "identity") {
		c.coding = nil
	}
	if f.decode && len(c.coding) == 1 && len(c.bytes) > 0 && isGzip(trimOWS(c.coding[0])) {
		if plain, ok := x.gz.decode(c.bytes); ok {
			c.bytes, c.coding = plain, nil
		}
		defer x.gz.release()
	}
	if len(c.bytes) == 0 {
		x.w.Byte(formEmpty) // a type or coding of nothing means nothing
		x.w.Cut()
		return 0, 0
	}
	return f.writeContent(x, &c), fold(x.w.Sum(c.bytes))
}

// writeContent chooses the form: first whether the body can be read as what it claims to be, then
// it is written. It returns a digest of the media type, which is not 0.
func (f *Fingerprinter) writeContent(x *scratch, c *content) (media uint32) {
	w := x.w
	essence := ""
	if len(c.types) == 1 {
		essence, _ = canon.Essence(c.types[0])
	}
	form, read := byte(formRaw), false
	switch {
	case f.body == BodyRaw || len(c.coding) > 0:
	case canon.IsJSON(essence):
		defer x.doc.Release()
		form, read = f.parseJSON(x, c.bytes)
	case essence == "application/x-www-form-urlencoded":
		defer x.form.Release()
		form, read = formPairs, (f.version < version3 || canon.Encoded(c.bytes)) && x.form.Parse(c.bytes)
	case f.isMultipart(essence):
		defer x.parts.Release()
		form, read = formMultipart, x.parts.Parse(c.bytes, canon.Boundary(c.types[0])) && (f.version >= version3 || x.parts.Bare())
	}
	if !read && form != formRaw {
		form = formRefused
	}
	w.Byte(form)
	w.Cut()
	writeType(w, c.types, essence, read)
	media = max(1, fold(w.Cut()))
	w.Uint(len(c.coding))
	for _, v := range c.coding {
		w.Lower(trimOWS(v))
	}
	switch form {
	case formExact:
		x.doc.WriteExact(w)
	case formFields:
		x.doc.WriteFields(w, f.fields)
	case formJCS:
		x.doc.WriteJCS(w)
	case formPairs:
		f.writePairs(x)
	case formMultipart:
		f.writeParts(x, c, essence)
	case formRaw, formRefused:
		w.Bytes(c.bytes)
	}
	return media
}

const multipartForm = "multipart/form-data"

func (f *Fingerprinter) isMultipart(essence string) bool {
	return essence == multipartForm || f.version >= version3 && strings.HasPrefix(essence, "multipart/")
}

func (f *Fingerprinter) writeParts(x *scratch, c *content, essence string) {
	if f.version < version3 {
		x.parts.Write(x.w)
		return
	}
	if essence == multipartForm && len(f.names) > 0 {
		x.parts.Drop(f.names)
	}
	x.parts.WriteNested(x.w, c.types[0])
}

func (f *Fingerprinter) parseJSON(x *scratch, body []byte) (form byte, ok bool) {
	form = [...]byte{BodyAuto: formExact, BodyJCS: formJCS, BodyFields: formFields}[f.body]
	if !x.doc.Parse(body) || form == formJCS && !x.doc.Doubles() {
		return form, false
	}
	for _, p := range f.exclude {
		x.doc.Drop(p)
	}
	if form == formFields && f.version > version1 && !x.doc.HasAny(f.fields) { // nothing of it would be compared
		form = formExact
	}
	return form, true
}

// writeType writes the media type without its parameters: they do not change what JSON or a form
// says. A multipart body that could not be read by its parts needs the boundary.
func writeType(w *canon.Writer, types []string, essence string, read bool) {
	switch {
	case len(types) == 0:
		w.Byte(typeAbsent)
	case essence != "" && (read || !strings.HasPrefix(essence, "multipart/")):
		w.Byte(typeEssence)
		w.String(essence)
	default:
		w.Byte(typeAsSent)
		w.Uint(len(types))
		for _, t := range types {
			w.String(trimOWS(t))
		}
	}
}

// isGzip knows both names of the coding (RFC 9110 section 8.4.1.3).
func isGzip(coding string) bool {
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// gunzip decodes bodies into a buffer of its own.
type gunzip struct {
	src   bytes.Reader
	zr    gzip.Reader
	plain bytes.Buffer
}

// decode returns false for what is not gzip, is broken or cut short, or exceeds maxDecoded.
func (g *gunzip) decode(body []byte) ([]byte, bool) {
	g.src.Reset(body)
	if g.zr.Reset(&g.src) != nil {
		return nil, false
	}
	g.plain.Reset()
	n, err := io.Copy(&g.plain, io.LimitReader(&g.zr, maxDecoded+1))
	return g.plain.Bytes(), err == nil && n <= maxDecoded
}

func (g *gunzip) release() {
	const keep = 256 << 10
	g.src.Reset(nil)
	if g.plain.Cap() > keep {
		g.plain = bytes.Buffer{}
	}
}
