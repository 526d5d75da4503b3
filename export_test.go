package stet

// ParseRecipe is for tests outside the package, which make records by the rules of older versions.
var ParseRecipe = parseRecipe

// What a zero field means.
const (
	DefaultStoreTimeout = defaultStoreTimeout
	DefaultLease        = defaultLease
	DefaultExecution    = defaultExecution
	DefaultRetain       = defaultRetain
)
