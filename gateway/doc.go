// Package gateway makes an API in any language safe to retry: a reverse proxy whose routes are guarded by package stethttp.
//
// A [Gateway] forwards each request to one upstream and adds what a proxy can know and a handler cannot: what a broken
// connection proves. If no byte of the request was sent, nothing happened, and a retry with the same key runs. If anything was
// sent and no complete answer came back, the outcome is unknown, and nothing is sent again: not by the client's retry, and not
// by net/http, which would otherwise repeat any request with an Idempotency-Key on its own.
//
// # What the upstream sees
//
// Path, query, Host and body as the client sent them; a request target in absolute-form does not choose the upstream. Headers
// without the hop-by-hop ones (RFC 9110 section 7.6.1) and without any that begin with Stet-. X-Forwarded-For and Forwarded
// with the client appended, X-Forwarded-Host and -Proto unless a proxy before has set them. With a claim: the key, see
// [UpstreamKey], Stet-Attempt and Stet-Fence, and no Expect, as the body is here. It may answer with Stet-Outcome, which goes
// no further.
//
// Interim answers, trailers, event streams and upgrades are passed on as they come; upgrades are not guarded. Redirects are the
// client's to follow. CONNECT is refused.
//
// # Serving
//
// A [Server] listens, swaps its handler on reload, and drains.
package gateway
