// Package tag writes and reads the ids that records are shown with: 64 bits as "k_" and 16 hex
// digits.
package tag

import (
	"encoding/binary"
	"encoding/hex"
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
	for _, c := range []byte(s[2:]) {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
