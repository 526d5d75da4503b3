package admin

// The documents of answers, for tests that read them.
type (
	Entry  = entry
	Record = record
)
