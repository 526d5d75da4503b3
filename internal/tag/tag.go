// Package tag writes and reads the ids that records are shown with: 64 bits as "k_" and 16 hex
// digits.
package tag

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

const length = 2 + 16

// Text is the id of these bits.
func Text(n uint64) string { return string(Append(make([]byte, 0, length), n)) }

// Append appends the id of these bits.
func Append(dst []byte, n uint64) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], n)
	return hex.AppendEncode(append(dst, "k_"...), raw[:])
}

// Parse is the inverse of Text. ok is false for anything that Text does not write.
func Parse(s string) (n uint64, ok bool) {
	if len(s) != length || s[:2] != "k_" {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:], 16, 64)
	var again [length]byte // ParseUint also takes capitals
	return n, err == nil && string(Append(again[:0], n)) == s
}
