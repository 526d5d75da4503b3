package pgstore

import (
	"encoding/hex"
	"strconv"
)

// literal writes a slice as text, in the form of an array (PostgreSQL documentation, section
// 8.15.2): every driver takes that, while not every one takes slices. Other values stay as they
// are.
func literal(v any) any {
	switch v := v.(type) {
	case []string:
		return arrayText(v, appendQuoted)
	case []int64:
		return arrayText(v, appendInt)
	case []*int64:
		return arrayText(v, appendNumber)
	case [][]byte:
		return arrayText(v, appendBytes)
	}
	return v
}

func arrayText[T any](values []T, appendTo func([]byte, T) []byte) string {
	b := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTo(b, v)
	}
	return string(append(b, '}'))
}

func appendNumber(b []byte, n *int64) []byte {
	if n == nil {
		return append(b, "NULL"...)
	}
	return appendInt(b, *n)
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// appendBytes writes bytea in hexadecimal.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return append(b, "NULL"...)
	}
	return append(hex.AppendEncode(append(b, `"\\x`...), v), '"')
}
