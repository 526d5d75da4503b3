// Package stettest helps to test services that use Stet: a clock to move, and [Check], which runs the quality gates of the
// trade against a handler.
package stettest

import "github.com/stet-dev/stet/store/storetest"

// Clock is a clock that a test moves: give its Now to a store, such as memstore.Config.Clock, and Advance it past a lease or a
// retention. The zero value is ready.
type Clock = storetest.Clock
