// Package gateway makes an API in any language safe to retry: a reverse proxy whose routes are guarded by package stethttp.
//
// A [Gateway] forwards each request to one upstream and adds what a proxy can know and a handler cannot: what a broken
// connection proves. If no byte of the request was sent, nothing happened, and a retry with the same key runs. If anything was
// sent and no complete answer came back, the outcome is unknown, and nothing is sent again: not by the client's retry, and not
// by net/http, which would otherwise repeat any request with an Idempotency-Key on its own. What may be repeated are unguarded
// requests of safe methods (RFC 9110 section 9.2.2), where a connection that had been idle breaks before the answer.
//
// # What the upstream sees
//
// Path, query, Host and body as the client sent them; a request target in absolute-form does not choose the upstream. Headers
// without the hop-by-hop ones (RFC 9110 section 7.6.1), without any that begin with Stet-, and without other spellings of key and
// scope. X-Forwarded-For, -Host, -Proto and Forwarded with the client alone or, from a trusted proxy, appended to what that said;
// Via with the gateway appended. With a claim: the key, see [UpstreamKey], Stet-Attempt and Stet-Fence, and no Expect, as the body
// is here; a body of any framing has its length now. It may answer with Stet-Outcome, also as a trailer, and with Stet-Downstream-Id
// and Stet-Downstream-Key, the names by which a provider knows the effect (see [stet.Claim.Downstream]; visible ASCII, 255 bytes at
// most). They go no further. What it gives no Content-Type has none.
//
// Interim answers, trailers, event streams and upgrades are passed on as they come; upgrades, which are GETs, are not guarded.
// Redirects are the client's to follow.
//
// # What is refused
//
// Before a request has a route it has one form, or is refused: a target that can be read in more than one way, another spelling of a
// method that some route enables, framing that is not certain; and CONNECT. Where no route enforces anything, only what no proxy to
// one server could pass on is refused.
//
// # Serving
//
// A [Server] listens, swaps its handler on reload, and drains.
//
// What goes wrong is logged without what net/http quotes of requests and answers. One thing cannot be had that way: its Transport
// tells the standard logger of package log of bytes that an upstream sent unasked, with the bytes, where a request has not gone the
// short way that the Gateway has of its own. A program that minds gives that logger another output; command stet does.
package gateway
