package sealstore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// KeySize is the length of every key in bytes, for AES-256 and for HMAC-SHA256.
const KeySize = 32

// maxKeyID is the length of the longest key id in bytes. Each sealed value contains an id.
const maxKeyID = 64

// Keys are the keys of a [Store]. With every verb of package fmt, in logs and in JSON, they appear
// as [keys] only.
type Keys struct {
	// Primary is the id of the key that seals. It must be in Keys.
	Primary string
	// Keys are the keys that open, by their ids. An id has 1 to 64 printable ASCII characters, a
	// key [KeySize] bytes.
	Keys map[string][]byte
	// Names hashes scopes and keys, and has [KeySize] bytes. If it is nil, names are stored as they
	// are.
	Names []byte
}

// ParseKeys reads a JSON document of the form
//
//	{"primary": "k2", "keys": {"k1": "BASE64", "k2": "BASE64"}, "names": "BASE64"}
//
// Each BASE64 is 32 bytes in standard base64, as `openssl rand -base64 32` prints them. "names" is
// optional. The error says what is wrong with which key, and never quotes a key.
func ParseKeys(doc []byte) (Keys, error) {
	var file struct {
		Primary string  `json:"primary"`
		Keys    keyMap  `json:"keys"`
		Names   *[]byte `json:"names"`
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return Keys{}, fmt.Errorf("encryption keys: %w", withoutValues(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Keys{}, errors.New("encryption keys: there is more after the JSON object")
	}
	k := Keys{Primary: file.Primary, Keys: file.Keys}
	if file.Names != nil {
		k.Names = append([]byte{}, *file.Names...)
	}
	return k, k.validate()
}

// keyMap refuses an id that occurs twice. encoding/json would drop the first key silently, and with
// it everything that it sealed.
type keyMap map[string][]byte

func (m *keyMap) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New(`"keys" is an object of ids and keys`)
	}
	*m = keyMap{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		id, _ := t.(string)
		var key []byte
		if _, twice := (*m)[id]; twice {
			return fmt.Errorf("key %q is there twice", id)
		}
		if err := dec.Decode(&key); err != nil {
			return fmt.Errorf("key %q is not a string of standard base64", id)
		}
		(*m)[id] = key
	}
	return nil
}

// withoutValues removes values from errors of encoding/json, because a value may be a key.
func withoutValues(err error) error {
	const form = `write {"primary": "k1", "keys": {"k1": "BASE64"}}`
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch text := err.Error(); {
	case errors.Is(err, io.EOF):
		return errors.New("there is nothing; " + form)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON breaks off; " + form)
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d is not JSON; %s", syntax.Offset, form)
	case errors.As(err, &typed) && typed.Field == "":
		return errors.New("this is no JSON object; " + form)
	case errors.As(err, &typed):
		return fmt.Errorf("%q has the wrong type", typed.Field)
	case strings.HasPrefix(text, "illegal base64"):
		return errors.New(`"names" is not standard base64`)
	default:
		return errors.New(strings.TrimPrefix(text, "json: ")) // an unknown field, or what keyMap says
	}
}

func (k Keys) validate() error {
	if len(k.Keys) == 0 {
		return errors.New("encryption keys: there are none")
	}
	for id, key := range k.Keys {
		switch {
		case !validID(id):
			return fmt.Errorf("encryption keys: the id %q is not 1 to %d printable ASCII characters", id, maxKeyID)
		case len(key) != KeySize:
			return fmt.Errorf("encryption keys: key %q has %d bytes; it takes %d, as `openssl rand -base64 %[3]d` prints them",
				id, len(key), KeySize)
		}
	}
	switch {
	case k.Primary == "":
		return errors.New(`encryption keys: "primary" says which key seals, and is missing`)
	case k.Keys[k.Primary] == nil:
		return fmt.Errorf("encryption keys: the primary key %q is not among the keys", k.Primary)
	case k.Names != nil && len(k.Names) != KeySize:
		return fmt.Errorf(`encryption keys: "names" has %d bytes; it takes %d`, len(k.Names), KeySize)
	}
	return nil
}

func validID(id string) bool {
	return id != "" && len(id) <= maxKeyID && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// Format implements [fmt.Formatter]. It hides the keys, whatever the verb.
func (Keys) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[keys]") }

// MarshalJSON implements [json.Marshaler]. It hides the keys.
func (Keys) MarshalJSON() ([]byte, error) { return []byte(`"[keys]"`), nil }

// ring holds the keys as ciphers. It is safe for concurrent use.
type ring struct {
	primary string
	ciphers map[string]cipher.AEAD
	sums    map[string][sha256.Size]byte // of the keys, to tell whether one is another
}

// exchanged returns an id that both rings have, for different keys, or "".
func (r *ring) exchanged(other *ring) string {
	for id, sum := range r.sums {
		if its, both := other.sums[id]; both && its != sum {
			return id
		}
	}
	return ""
}

func (k Keys) ring() (*ring, error) {
	if err := k.validate(); err != nil {
		return nil, err
	}
	r := &ring{k.Primary, make(map[string]cipher.AEAD, len(k.Keys)), make(map[string][sha256.Size]byte, len(k.Keys))}
	for id, key := range k.Keys {
		r.sums[id] = sha256.Sum256(key)
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if r.ciphers[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	return r, nil
}
