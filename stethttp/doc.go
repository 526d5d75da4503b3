// Package stethttp is the net/http middleware of Stet: it makes the routes behind it safe to retry.
//
// [Middleware] wraps any handler. A request that carries an Idempotency-Key runs at most once. Its
// response is stored before the first byte is sent, and every later request with the same key and
// the same content gets that response again, byte for byte. A key that is sent with another request
// is refused (422). A key whose first request is still running is refused or waits (409). A key
// whose outcome is not known is answered with 409 outcome-unknown and does not run again.
//
//	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
//	…
//	scope := stethttp.HeaderScope("X-Tenant-Id")
//	idempotent := stethttp.Middleware(engine, scope, stethttp.Config{})
//	http.ListenAndServe(":8080", idempotent(api))
//
// The handler gets the whole request body buffered, and a context that outlives the client's
// connection: it ends when the execution takes too long or the lease is lost. A handler can say
// more about its outcome than its status does, through [stet.ClaimFrom], [stet.Claim.NotExecuted]
// and [stet.Claim.Unknown], or with the response header Stet-Outcome. [Atomic] runs a handler in
// one database transaction with its record.
//
// A response is sent when the handler returns; Flush does nothing before that. Server-sent events,
// streams of lines that are flushed (application/x-ndjson, application/ndjson, application/jsonl,
// application/stream+json, without a Content-Length), and responses over MaxResponse, are passed on
// while they are written. Such a response is not kept, and a retry is told so.
//
// A framework that does not use net/http needs a bridge; docs/http.md has several. If a handler
// answers where the middleware cannot see it, its run ends as unknown: see [CauseElsewhere].
//
// Wiring mistakes are reported to [stet.Config.Observe] as [stet.Miswired] events. Their causes are
// answered-elsewhere; second-guard, if a request meets the record that was made for it, because two
// guards share one record or one guard is applied twice; bad-outcome, if a handler sends a
// Stet-Outcome that is no known word, which counts as unknown; timeout-handler, if
// [http.TimeoutHandler] within a guard answers 503 while its handler may go on, so that the outcome
// is unknown; and bad-render, if [Config.Render] panics or writes nothing.
package stethttp
