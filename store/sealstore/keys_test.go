package sealstore_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stet-dev/stet/store/sealstore"
)

var (
	b1 = base64.StdEncoding.EncodeToString(key(1))
	b2 = base64.StdEncoding.EncodeToString(key(2))
)

func TestParseKeys(t *testing.T) {
	k, err := sealstore.ParseKeys([]byte(`{"primary": "k2", "keys": {"k1": "` + b1 + `", "k2": "` + b2 + `"}, "names": "` + b1 + `"}` + "\n"))
	if err != nil || k.Primary != "k2" || !bytes.Equal(k.Keys["k1"], key(1)) || !bytes.Equal(k.Keys["k2"], key(2)) || !bytes.Equal(k.Names, key(1)) {
		t.Errorf("%v, %v", k.Primary, err)
	}
	k, err = sealstore.ParseKeys([]byte(`{"primary": "k1", "keys": {"k1": "` + b1 + `"}}`))
	if err != nil || k.Names != nil {
		t.Errorf("without names: %v", err)
	}
}

func TestParseKeysSaysWhatIsWrong(t *testing.T) {
	for doc, want := range map[string]string{
		``:                               "encryption keys: there is nothing; write",
		`[]`:                             "this is no JSON object; write",
		b1:                               "byte 1 is not JSON; write",
		`{"primary": "k1"`:               "the JSON breaks off; write",
		`{}`:                             "there are none",
		`{"primary": "k1", "keys": {}}`:  "there are none",
		`{"keys": {"k1": "` + b1 + `"}}`: `"primary" says which key seals, and is missing`,
		`{"primary": "k2", "keys": {"k1": "` + b1 + `"}}`:                              `the primary key "k2" is not among the keys`,
		`{"primary": "k1", "keys": {"k1": "` + b1[:20] + `"}}`:                         `key "k1" has 15 bytes; it takes 32`,
		`{"primary": "k1", "keys": {"k1": "c2VjcmV0!"}}`:                               `key "k1" is not a string of standard base64`,
		`{"primary": "k1", "keys": {"k1": 31415}}`:                                     `key "k1" is not a string of standard base64`,
		`{"primary": "k1", "keys": {"k1": "` + b1 + `", "k1": "` + b2 + `"}}`:          `key "k1" is there twice`,
		`{"primary": "k 1", "keys": {"k 1": "` + b1 + `"}}`:                            `the id "k 1" is not 1 to 64 printable ASCII characters`,
		`{"primary": "", "keys": {"": "` + b1 + `"}}`:                                  `the id "" is not`,
		`{"primary": "k1", "keys": ["` + b1 + `"]}`:                                    `"keys" is an object`,
		`{"primary": "k1", "keys": {"k1": "` + b1 + `"}, "naems": "` + b2 + `"}`:       `unknown field "naems"`,
		`{"primary": "k1", "keys": {"k1": "` + b1 + `"}, "names": ""}`:                 `"names" has 0 bytes; it takes 32`,
		`{"primary": "k1", "keys": {"k1": "` + b1 + `"}, "names": "!` + b2 + `"}`:      `"names" is not standard base64`,
		`{"primary": ["` + b1 + `"], "keys": {"k1": "` + b1 + `"}}`:                    `"primary" has the wrong type`,
		`{"primary": "k1", "keys": {"k1": "` + b1 + `"}} {"primary": "` + b2 + `"}`:    "there is more after the JSON object",
		`{"primary": "k1", "keys": {"` + strings.Repeat("k", 65) + `": "` + b1 + `"}}`: "printable ASCII characters",
	} {
		_, err := sealstore.ParseKeys([]byte(doc))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), b1[:8]) || strings.Contains(err.Error(), b2[:8]) || strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "31415")) {
			t.Errorf("a key is quoted: %v", err)
		}
	}
}

// Whatever is in the file, it is refused or can be used.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"primary": "k1", "keys": {"k1": "` + b1 + `"}, "names": "` + b2 + `"}`))
	f.Add([]byte(`{"keys": {"k1": [}}`))
	inner := memory(nil)
	f.Fuzz(func(t *testing.T, doc []byte) {
		k, err := sealstore.ParseKeys(doc)
		if err != nil {
			return
		}
		if _, err := sealstore.New(inner, sealstore.Config{Keys: k}); err != nil {
			t.Errorf("%q is taken, and %v", doc, err)
		}
	})
}

func TestNewNamesWhatCannotBe(t *testing.T) {
	for want, c := range map[string]sealstore.Config{
		"there are none": {}, "MaxOpened": {Keys: oneKey(), MaxOpened: -1},
		"32": {Keys: sealstore.Keys{Primary: "k1", Keys: map[string][]byte{"k1": {1}}}},
	} {
		if _, err := sealstore.New(memory(nil), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := sealstore.New(nil, sealstore.Config{Keys: oneKey()}); err == nil {
		t.Error("no store is taken")
	}
}
