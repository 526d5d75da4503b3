package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
)

// seal encrypts cursors for as long as the process runs: the cursors of some stores have a key in
// them, and no key is in an address.
type seal struct{ cipher.AEAD }

func newSeal() seal {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("console: " + err.Error()) // of a key of another length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("console: " + err.Error()) // of another block size
	}
	return seal{aead}
}

func (s seal) seal(c cursor) string {
	return base64.RawURLEncoding.EncodeToString(s.Seal(nil, nil, []byte(c), nil))
}

func (s seal) open(text string) (string, bool) {
	box, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	plain, err := s.Open(nil, nil, box, nil)
	return string(plain), err == nil
}
