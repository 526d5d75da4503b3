// Package stettest helps to test services that use Stet. [Check] verifies that a handler is safe to
// retry: the same key and request give the same answer, another request with the key is refused,
// concurrent duplicates run once. [Clock] is a clock that a test moves, past a lease or a
// retention.
package stettest

import "github.com/stet-dev/stet/store/storetest"

// Clock is a clock that a test moves. Give its Now to a store, such as memstore.Config.Clock, and
// call Advance. The zero value is ready to use.
type Clock = storetest.Clock
