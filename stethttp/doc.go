// Package stethttp is the net/http face of the engine: a middleware that makes the routes behind it safe to retry.
//
// [Middleware] wraps any handler. A request that carries an Idempotency-Key runs at most once; its response is stored before
// the first byte is sent, and every later request with that key and the same content gets it back, byte for byte. A key that
// is used for another request is refused (422), one that is still running is refused or waits (409), and one whose outcome is
// not known says so (409 outcome-unknown) instead of running again.
//
// The handler sees the request with its whole body buffered, and a context that outlives the client's connection: it ends
// when the execution takes too long or the lease is lost. It can say more than its status does: see [stet.ClaimFrom],
// [stet.Claim.NotExecuted], [stet.Claim.Unknown], or answer with the header Stet-Outcome.
//
// Between the middleware and a framework that is no net/http there has to be a bridge: docs/http.md has some. A handler that
// answers where the middleware does not see it ends unknown, with a [stet.Miswired] event: see [CauseElsewhere].
//
// What is put together wrongly is reported to [stet.Config.Observe] as [stet.Miswired], with the cause second-guard (a request met the
// record that was made for it: there are two guards on one record, or one twice), bad-outcome (a Stet-Outcome that is no word there is;
// it counts as unknown) or bad-render ([Config.Render] panicked or wrote nothing).
//
// Buffered responses are sent when the handler returns: Flush does nothing before. Server-sent events, and responses over
// MaxResponse, are passed on as they are written; such a response is not kept, and a retry is told so.
package stethttp
