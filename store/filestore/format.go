package filestore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// schema is the version of the files written today. A file of another version is refused, for its
// key alone (case SF-06).
const schema = 1

// form is a record as it stands in a file.
type form struct {
	Schema      int    `json:"schema"` // first, see decode
	Tag         text   `json:"id,omitempty"`
	Scope       text   `json:"scope"`
	Key         text   `json:"key"`
	State       string `json:"state"`
	Fingerprint string `json:"fingerprint"`
	Parts       string `json:"fingerprint_parts"`
	Recipe      text   `json:"fingerprint_recipe,omitempty"`
	Version     uint64 `json:"version,string"` // a string: other programs read numbers as floats
	Attempt     int    `json:"attempt"`
	Owner       text   `json:"owner,omitempty"`
	Route       text   `json:"route,omitempty"`
	Method      text   `json:"method,omitempty"`
	Path        text   `json:"path,omitempty"`
	TraceID     text   `json:"trace_id,omitempty"`
	Point       text   `json:"point,omitempty"`
	Cause       text   `json:"cause,omitempty"`
	DownKey     text   `json:"downstream_key,omitempty"`
	DownID      text   `json:"downstream_id,omitempty"`
	Meta        []pair `json:"meta,omitempty"`

	Status     int   `json:"status,omitempty"`
	Size       int64 `json:"response_bytes,omitempty"`
	Kept       word  `json:"kept,omitempty"`
	Published  bool  `json:"published,omitempty"`
	Reconciled bool  `json:"reconciled,omitempty"`
	Probes     int   `json:"probes,omitempty"`
	Escalated  bool  `json:"escalated,omitempty"`
	Rules      rules `json:"rules"`
	Note       *note `json:"note,omitempty"`

	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
	Completed time.Time `json:"completed_at,omitzero"`
	Due       time.Time `json:"due_at,omitzero"`
	Expires   time.Time `json:"expires_at,omitzero"` // a completed record's due_at
	Took      millis    `json:"execution_time_ms,omitzero"`

	Response *response `json:"response,omitempty"`
	Request  []byte    `json:"request_b64,omitzero"`
	Progress []byte    `json:"progress_b64,omitzero"`

	// Head is the head as internal/codec encodes it, if it has a field that this form has no name
	// for.
	Head []byte `json:"head_b64,omitempty"`
}

type response struct {
	Status   int    `json:"status"`
	Header   []pair `json:"headers"`
	Trailer  []pair `json:"trailers,omitempty"`
	Unframed bool   `json:"unframed,omitempty"`
	Body     []byte `json:"body_b64,omitzero"`
}

type rules struct {
	Retain       span `json:"retain"`
	KeepExpired  span `json:"keep_expired,omitzero"`
	FromCreation bool `json:"from_creation,omitempty"`
	OnLapse      word `json:"on_lapse"`
}

type note struct {
	Who      text `json:"who"`
	Why      text `json:"why"`
	Evidence text `json:"evidence"`
	Notice   text `json:"notice,omitempty"`
	Action   text `json:"action,omitempty"`
}

func noteOf(n *stet.Note) note {
	return note{text(n.Who), text(n.Why), text(n.Evidence), text(n.Notice), text(n.Action)}
}

func (n *note) export() stet.Note {
	return stet.Note{Who: string(n.Who), Why: string(n.Why), Evidence: string(n.Evidence), Notice: string(n.Notice), Action: string(n.Action)}
}

// pair is one line of a list whose order counts and whose names may repeat.
type pair struct {
	Name  text `json:"name"`
	Value text `json:"value"`
}

type word string

var (
	keptWords  = []word{stet.KeptWhole: "", stet.KeptHeader: "header", stet.KeptStatus: "status"}
	lapseWords = []word{stet.LapseUnknown: "unknown", stet.LapseResume: "resume", stet.LapseReexecute: "reexecute", stet.LapseAtomic: "atomic"}
)

// text is a string that may hold any bytes. If it is not UTF-8 it becomes {"b64":"…"}, because JSON
// would change it.
type text string

type encoded struct {
	B64 []byte `json:"b64"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if strings.IndexFunc(string(t), special) < 0 { // as most are
		return append(append(append(make([]byte, 0, len(t)+2), '"'), t...), '"'), nil
	}
	if !utf8.ValidString(string(t)) {
		return json.Marshal(encoded{[]byte(t)})
	}
	return marshal(string(t), "")
}

// special reports whether r may need an escape in JSON.
func special(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

func (t *text) UnmarshalJSON(b []byte) error {
	if b[0] == '"' && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) { // as most are
		*t = text(b[1 : len(b)-1])
		return nil
	}
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var e encoded
	err := json.Unmarshal(b, &e)
	*t = text(e.B64)
	return err
}

// span is a duration in words, such as 24h0m0s.
type span time.Duration

func (d span) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *span) UnmarshalText(b []byte) (err error) {
	*(*time.Duration)(d), err = time.ParseDuration(string(b))
	return err
}

// millis is a duration as a number of milliseconds with up to six decimals, so that no nanosecond
// is lost.
type millis time.Duration

const decimals = 6

func (m millis) MarshalJSON() ([]byte, error) {
	sign, digits := "", strconv.FormatInt(int64(m), 10)
	if m < 0 {
		sign, digits = "-", digits[1:]
	}
	digits = strings.Repeat("0", max(decimals+1-len(digits), 0)) + digits
	point := len(digits) - decimals
	return []byte(strings.TrimRight(strings.TrimRight(sign+digits[:point]+"."+digits[point:], "0"), ".")), nil
}

func (m *millis) UnmarshalJSON(b []byte) error {
	whole, part, _ := strings.Cut(string(b), ".")
	if len(part) > decimals {
		return errors.New("finer than a nanosecond")
	}
	ns, err := strconv.ParseInt(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
	*m = millis(ns)
	return err
}

// marshal writes JSON for people: < and > are not escaped.
func marshal(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// A file ends with the checksum of everything before the last comma.
const sealFormat = ",\n  \"crc32c\": \"%08x\"\n}\n"

const sealLen = len(",\n  \"crc32c\": \"00000000\"\n}\n")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// opening is the beginning of every file of this schema.
var opening = fmt.Appendf(nil, "{\n  \"schema\": %d,\n", schema)

func encode(r *stet.Record) ([]byte, error) {
	f, err := formOf(r)
	if err != nil {
		return nil, err
	}
	var named stet.Record
	if err := f.head(&named.Head); err != nil {
		return nil, err
	}
	if head := codec.AppendHead(nil, &r.Head); !bytes.Equal(head, codec.AppendHead(nil, &named.Head)) {
		f.Head = head
	}
	b, err := marshal(f, "  ")
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("\n}"))
	return fmt.Appendf(b, sealFormat, crc32.Checksum(b, castagnoli)), nil
}

// decode reads a file. The error says what is wrong with the file, and nothing of its contents.
func decode(b []byte) (stet.Record, error) {
	if !bytes.HasPrefix(b, opening) {
		return stet.Record{}, fmt.Errorf("not a file of schema %d", schema)
	}
	if len(b) < sealLen {
		return stet.Record{}, errors.New("torn")
	}
	held, seal := b[:len(b)-sealLen], b[len(b)-sealLen:]
	if string(seal) != fmt.Sprintf(sealFormat, crc32.Checksum(held, castagnoli)) {
		return stet.Record{}, errChanged
	}
	return parse(held)
}

var errChanged = errors.New("torn or changed: the checksum is wrong")

// parse reads what stands before the seal.
func parse(held []byte) (stet.Record, error) {
	d := json.NewDecoder(io.MultiReader(bytes.NewReader(held), strings.NewReader("\n}")))
	d.DisallowUnknownFields()
	var f form
	if d.Decode(&f) != nil || d.More() {
		return stet.Record{}, errForm
	}
	return f.record()
}

func formOf(r *stet.Record) (*form, error) {
	if _, err := stet.ParseState(r.State.String()); err != nil || r.Kept > stet.KeptStatus || !r.Rules.OnLapse.Valid() {
		return nil, errors.New("a record with a state, a rule or a Kept that is none")
	}
	parts, _ := binary.Append(nil, binary.BigEndian, r.Fingerprint.Parts[:]) // which are of a fixed size
	f := &form{Schema: schema, Tag: text(r.Tag), Scope: text(r.Scope), Key: text(r.Key), State: r.State.String(),
		Fingerprint: hex.EncodeToString(r.Fingerprint.Sum[:]), Parts: hex.EncodeToString(parts), Recipe: text(r.Fingerprint.Recipe),
		Version: uint64(r.Version), Attempt: r.Attempt, Owner: text(r.Holder),
		Route: text(r.Route), Method: text(r.Method), Path: text(r.Path), TraceID: text(r.TraceID),
		Point: text(r.Point), Cause: text(r.Cause), DownKey: text(r.DownstreamKey), DownID: text(r.DownstreamID), Status: r.Status, Size: r.Size, Kept: keptWords[r.Kept],
		Published: r.Published, Reconciled: r.Reconciled, Probes: r.Probes, Escalated: r.Escalated,
		Rules:   rules{span(r.Rules.Retain), span(r.Rules.KeepExpired), r.Rules.FromCreation, lapseWords[r.Rules.OnLapse]},
		Created: r.CreatedAt, Updated: r.UpdatedAt, Completed: r.CompletedAt, Took: millis(r.Took),
		Request: r.Request, Progress: r.Progress}
	due, _ := f.due(r.State)
	*due = r.DueAt
	for _, k := range slices.Sorted(maps.Keys(r.Meta)) {
		f.Meta = append(f.Meta, pair{text(k), text(r.Meta[k])})
	}
	if n := r.Note; n != nil {
		f.Note = new(noteOf(n))
	}
	if a := r.Response; a != nil {
		f.Response = &response{a.Status, pairs(a.Header), pairs(a.Trailer), a.Unframed, a.Body}
	}
	return f, nil
}

// due returns the two fields for the instant at which a record falls due: the one that its state
// uses, and the other one. A completed record expires then, which is the word that other programs
// know; for other states it is the end of a lease, a pause or a refusal.
func (f *form) due(state stet.State) (due, other *time.Time) {
	if state == stet.Completed {
		return &f.Expires, &f.Due
	}
	return &f.Due, &f.Expires
}

func (f *form) record() (r stet.Record, err error) {
	if err := f.head(&r.Head); err != nil {
		return r, err
	}
	if f.Head != nil && codec.Head(string(f.Head), &r.Head) != nil {
		return r, errors.New("its head is none")
	}
	r.Request, r.Progress = f.Request, f.Progress
	if a := f.Response; a != nil {
		r.Response = &stet.Response{Status: a.Status, Header: fields(a.Header), Trailer: fields(a.Trailer), Body: a.Body, Unframed: a.Unframed}
	}
	return r, nil
}

// head reads the fields of a head that have names in the form.
func (f *form) head(h *stet.Head) (err error) {
	if h.State, err = stet.ParseState(f.State); err != nil {
		return errors.New("it has a state that is none")
	}
	due, other := f.due(h.State)
	if !other.IsZero() {
		return errors.New("it falls due as a record of another state")
	}
	h.DueAt = due.UTC()
	if h.Fingerprint, err = f.fingerprint(); err != nil {
		return err
	}
	kept, lapse := slices.Index(keptWords, f.Kept), slices.Index(lapseWords, f.Rules.OnLapse)
	if kept < 0 || lapse < 0 {
		return errors.New("it has a rule that is none")
	}
	h.Kept, h.Rules.OnLapse = stet.Kept(kept), stet.LapseRule(lapse)
	h.Tag = string(f.Tag)
	h.ID, h.Version, h.Attempt = stet.ID{Scope: stet.Scope(f.Scope), Key: stet.Key(f.Key)}, stet.Version(f.Version), f.Attempt
	h.Holder, h.Route, h.Method, h.Path = string(f.Owner), string(f.Route), string(f.Method), string(f.Path)
	h.TraceID, h.Point, h.Cause = string(f.TraceID), string(f.Point), string(f.Cause)
	h.DownstreamKey, h.DownstreamID = string(f.DownKey), string(f.DownID)
	h.Status, h.Size, h.Published, h.Reconciled = f.Status, f.Size, f.Published, f.Reconciled
	h.Probes, h.Escalated, h.Took = f.Probes, f.Escalated, time.Duration(f.Took)
	h.Rules.Retain, h.Rules.KeepExpired, h.Rules.FromCreation = time.Duration(f.Rules.Retain), time.Duration(f.Rules.KeepExpired), f.Rules.FromCreation
	h.CreatedAt, h.UpdatedAt, h.CompletedAt = f.Created.UTC(), f.Updated.UTC(), f.Completed.UTC()
	if len(f.Meta) > 0 {
		h.Meta = make(map[string]string, len(f.Meta))
		for _, p := range f.Meta {
			h.Meta[string(p.Name)] = string(p.Value)
		}
	}
	if f.Note != nil {
		h.Note = new(f.Note.export())
	}
	return nil
}

func (f *form) fingerprint() (p stet.Fingerprint, err error) {
	p.Recipe = string(f.Recipe)
	sum, err := hex.DecodeString(f.Fingerprint)
	if err != nil || len(sum) != len(p.Sum) {
		return p, errors.New("its fingerprint is none")
	}
	p.Sum = [32]byte(sum)
	parts, err := hex.DecodeString(f.Parts)
	if err != nil || len(parts) != 4*len(p.Parts) {
		return p, errors.New("its fingerprint has no parts")
	}
	_, err = binary.Decode(parts, binary.BigEndian, p.Parts[:])
	return p, err
}

func pairs(fields []stet.Field) []pair {
	ps := make([]pair, len(fields))
	for i, f := range fields {
		ps[i] = pair{text(f.Name), text(f.Value)}
	}
	return ps
}

func fields(ps []pair) []stet.Field {
	if len(ps) == 0 {
		return nil
	}
	fs := make([]stet.Field, len(ps))
	for i, p := range ps {
		fs[i] = stet.Field{Name: string(p.Name), Value: string(p.Value)}
	}
	return fs
}
