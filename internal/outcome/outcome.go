// Package outcome has the words for what became of an operation, as Stet-Outcome, the setting
// status_outcome and /policy.json say them.
package outcome

import "github.com/stet-dev/stet"

// These are the words.
const (
	NotExecuted = "not-executed"
	Unknown     = "unknown"
	Completed   = "completed"
)

// States has what each word means.
var States = map[string]stet.State{NotExecuted: stet.Retryable, Unknown: stet.Unknown, Completed: stet.Completed}

// Words returns the words for what statuses mean. A state without a word has the empty one.
func Words(means map[int]stet.State) map[int]string {
	of := map[stet.State]string{}
	for word, state := range States {
		of[state] = word
	}
	words := map[int]string{}
	for status, state := range means {
		words[status] = of[state]
	}
	return words
}
