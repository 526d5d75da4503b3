package members_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/members"
)

// own decodes itself.
type own int

func (o *own) UnmarshalJSON(text []byte) error {
	if string(text) != "7" {
		return errors.New("it is 7")
	}
	*o = 7
	return nil
}

type places struct {
	text string
	blob []byte
	flag bool
	num  int
	many map[string][]string
	own  own
}

func (p *places) names() map[string]any {
	return map[string]any{"text": &p.text, "blob_b64": &p.blob, "flag": &p.flag, "num": &p.num, "many": &p.many, "own": &p.own}
}

func TestRead(t *testing.T) {
	var p places
	err := members.Read([]byte(` {"text":"a","blob_b64":"YQ==","flag":true,"num":3,"many":{"X":["1","2"]},"own":7} `), p.names())
	if err != nil || p.text != "a" || string(p.blob) != "a" || !p.flag || p.num != 3 || len(p.many["X"]) != 2 || p.own != 7 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Nothing is ignored, and the error says which member it is and what to send instead. // D10
func TestReadRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		``:                         "it is no JSON object, or something follows it",
		`[]`:                       "it is no JSON object, or something follows it",
		`{"text":"a"`:              "it is no JSON object, or something follows it",
		`{"text":"a"}{}`:           "it is no JSON object, or something follows it",
		`{"texts":"a"}`:            `"texts": there is no such member; did you mean text?`,
		`{"TEXT":"a"}`:             `"TEXT": there is no such member; did you mean text?`,
		`{"utterly":1}`:            `"utterly": there is no such member; there are blob_b64, flag, many, num, own and text`,
		`{"text":"a","text":"a"}`:  "text: it is there twice; send it once",
		`{"text":null}`:            "text: it has to be a string",
		`{"text":1}`:               "text: it has to be a string",
		`{"blob_b64":"%"}`:         "blob_b64: it has to be a string in base64",
		`{"flag":"yes"}`:           "flag: it has to be true or false",
		`{"num":1.5}`:              "num: it has to be a whole number",
		`{"many":{"X":"1"}}`:       `many: it has to be an object of lists of strings, such as {"Name": ["value"]}`,
		`{"many":{"X":[],"X":[]}}`: "a name is there twice inside of a member, or text is no Unicode",
		`{"own":8}`:                "own: it is 7",
		`{"own":null}`:             "own: it has to be of another kind: see the documentation",
	} {
		var p places
		err := members.Read([]byte(doc), p.names())
		if bad, ok := errors.AsType[*members.Error](err); !ok || bad.Error() != want {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}

// What is accepted is what encoding/json makes of it.
func FuzzRead(f *testing.F) {
	f.Add(`{"text":"a","num":3}`)
	f.Add(`{"many":{"X":["1"]},"flag":false}`)
	f.Fuzz(func(t *testing.T, doc string) {
		var p places
		if members.Read([]byte(doc), p.names()) != nil {
			return
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(doc), &all); err != nil {
			t.Fatalf("%q is no object: %v", doc, err)
		}
		names := p.names()
		maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return names[name] != nil })
		if len(all) > 0 || strings.Contains(doc, "null") && !strings.Contains(doc, `"`) {
			t.Fatalf("%q was accepted with %v", doc, all)
		}
	})
}
