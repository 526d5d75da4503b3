// Package digest turns names into one name of fixed length, under which others may keep what they
// have: a file, or a key that is sent downstream.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Of returns the SHA-256 of parts, each after its length, and of numbers after them. Lengths and
// numbers have eight bytes. So different lists of parts never give the same bytes to hash.
func Of(parts []string, numbers ...int64) []byte {
	var b []byte
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(p))), p...)
	}
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// Phase is the key that a flow sends downstream for the phase at a point, in the life of a key that
// began at an instant in microseconds. It does not reveal the client's key.
func Phase(scope, key, point string, life int64) string {
	return "stet_" + hex.EncodeToString(Of([]string{"stet flow 1", scope, key, point}, life)[:16])
}
