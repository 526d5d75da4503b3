// Package sealed makes cursors that only those can read who have made them. Those of some stores
// have a key in them, which is in no address, and is not for everybody who may list records.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// Cursors encrypts cursors.
type Cursors struct{ aead cipher.AEAD }

// New returns Cursors with a key of their own, for as long as the process runs.
func New() Cursors {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return with(key)
}

// Shared returns Cursors that all processes open which have the same secret.
func Shared(secret []byte) Cursors {
	key, err := hkdf.Key(sha256.New, secret, nil, "stet admin cursors", 32)
	if err != nil {
		panic("sealed: " + err.Error()) // of another length
	}
	return with(key)
}

func with(key []byte) Cursors {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("sealed: " + err.Error()) // of a key of another length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("sealed: " + err.Error()) // of another block size
	}
	return Cursors{aead}
}

// Seal encrypts a cursor, which opens for the same who alone.
func (c Cursors) Seal(cursor, who string) string {
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nil, nil, []byte(cursor), []byte(who)))
}

// Open is the inverse of Seal. ok is false for what was not sealed here, or not for who.
func (c Cursors) Open(text, who string) (cursor string, ok bool) {
	box, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	plain, err := c.aead.Open(nil, nil, box, []byte(who))
	return string(plain), err == nil
}
