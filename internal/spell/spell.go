// Package spell finds the word that was meant.
package spell

import "strings"

// Nearest returns the known word that word was most likely meant to be, or "" if none is near.
func Nearest(word string, known []string) string {
	best, found := limit(word)+1, ""
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < best {
			best, found = d, k
		}
	}
	return found
}

// Hint returns "; did you mean X?", or "" if no known word is near.
func Hint(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// limit is how many slips of the pen a word of that length may have.
func limit(word string) int { return min(3, 1+len(word)/5) }

// distance counts the letters to insert, delete, change or swap with their neighbour (optimal
// string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
