// Package crashpoint finds the points at which a program may die: before, after, and in the midst of what it does outside itself.
// What it does between two of them dies with it, so that these are all the ways to crash there are.
//
// It stands between package database/sql and a driver, and so encloses each statement of a store's and each commit of its callers'.
// Which points are counted, and at which one the program dies, is for its users to say: a demonstration and a test campaign.
package crashpoint

import "os"

// Watch is called before something is done, which is a statement, or one of BEGIN, COMMIT and ROLLBACK. What it returns is called at
// the points that follow. It is called by several goroutines at once, and may end the process.
type Watch func(what string) (then func(Where))

// Where a point lies that is not the first of its kind.
type Where uint8

const (
	// Pending is when a query was answered, and no row has been read: SQLite commits a statement that returns rows when the last of
	// them has been.
	Pending Where = iota + 1
	After
)

// Kill ends this process as kill -9 does: nothing is flushed, and nobody told. It does not return.
func Kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}
