// Package gateway makes an API in any language safe to retry: a reverse proxy whose routes are guarded by package stethttp.
//
// A [Gateway] forwards each request to one upstream and adds what a proxy can know and a handler cannot: what a broken
// connection proves. If no byte of the request was sent, nothing happened, and a retry with the same key runs. If anything was
// sent and no complete answer came back, the outcome is unknown, and nothing is sent again: not by the client's retry, and not
// by net/http, which would otherwise repeat any request with an Idempotency-Key on its own.
//
// Path, query, Host and body reach the upstream as the client sent them. The upstream also gets the key, Stet-Attempt and
// Stet-Fence, and may answer with Stet-Outcome; see [Config] and [UpstreamKey].
//
// A [Server] listens, swaps its handler on reload, and drains.
package gateway
