package storetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/storetest"
)

// A test of a store of one's own: replace filestore by that store. In a test file, the function is
// called TestLaws, and takes t *testing.T.
func ExampleRun() {
	TestLaws := func(t *testing.T) {
		storetest.Run(t, storetest.Backend{
			Durable: true, // acknowledged writes survive a crash
			Shared:  true, // several processes may open the directory at once
			Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
				s, err := filestore.Open(dir, filestore.Config{Clock: clock})
				if err != nil {
					t.Fatal(err)
				}
				return s
			},
		})
	}
	_ = TestLaws // go test calls it
}

// A clock for tests of code that takes one.
func ExampleClock() {
	var clock storetest.Clock
	began := clock.Now()
	clock.Advance(time.Minute)
	fmt.Println(clock.Now().Sub(began))
	// Output: 1m0s
}
