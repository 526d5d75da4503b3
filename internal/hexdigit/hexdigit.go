// Package hexdigit reads hexadecimal digits, as percent-encoding, chunk sizes and JSON escapes have
// them.
package hexdigit

// Value returns what a digit of either case is worth, 0 to 15, or -1 for any other byte.
func Value(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
