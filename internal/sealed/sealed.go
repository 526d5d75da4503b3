// Package sealed makes texts that only those can read who have made them: cursors, which have a key
// in them at some stores, and that is in no address and not for everybody who may list records; and
// what a browser keeps for the console.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// Box seals texts.
type Box struct{ aead cipher.AEAD }

// New returns a Box with a key of its own, for as long as the process runs.
func New() Box {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return with(key)
}

// Shared returns a Box that all processes have which have the same secret. Of one secret, each use has
// another Box.
func Shared(secret []byte, use string) Box {
	key, err := hkdf.Key(sha256.New, secret, nil, use, 32)
	if err != nil {
		panic("sealed: " + err.Error()) // of another length
	}
	return with(key)
}

func with(key []byte) Box {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("sealed: " + err.Error()) // of a key of another length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("sealed: " + err.Error()) // of another block size
	}
	return Box{aead}
}

// Seal encrypts a text, which opens as the same alone, such as for whom it is.
func (b Box) Seal(text, as string) string {
	return base64.RawURLEncoding.EncodeToString(b.aead.Seal(nil, nil, []byte(text), []byte(as)))
}

// Open is the inverse of Seal. ok is false for what was not sealed here, or not as that.
func (b Box) Open(sealed, as string) (text string, ok bool) {
	box, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return "", false
	}
	plain, err := b.aead.Open(nil, nil, box, []byte(as))
	return string(plain), err == nil
}
