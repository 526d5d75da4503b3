// Package gateway makes an API in any language safe to retry. It is a reverse proxy whose routes
// are guarded by package stethttp.
//
//	g, err := gateway.New(engine, gateway.Config{Upstream: upstream})
//	…
//	http.ListenAndServe(":8080", g)
//
// A [Gateway] forwards each request to one upstream. It knows what a handler cannot: what a broken
// connection proves. If no byte of the request was sent, nothing happened, and a retry with the
// same key runs. If anything was sent and no complete answer came back, the outcome is unknown, and
// nothing is sent again: neither by the client's retry nor by net/http, which by itself repeats any
// request with an Idempotency-Key. Only unguarded requests of safe methods (RFC 9110 section 9.2.2)
// may be repeated, if an idle connection breaks before the answer.
//
// # What the upstream sees
//
// Path, query, Host and body are as the client sent them; a request target in absolute-form does
// not choose the upstream. Headers lose the hop-by-hop fields (RFC 9110 section 7.6.1), fields that
// begin with Stet-, and other spellings of the key's and the scope's header. X-Forwarded-For,
// -Host, -Proto and Forwarded name the client alone or, from a trusted proxy, are appended to; Via
// is always appended to. A guarded request also has the key (see [UpstreamKey]), Stet-Attempt and
// Stet-Fence. It has no Expect, because its body is here already, and its body has a length
// whatever its framing was.
//
// The upstream may answer with Stet-Outcome, also as a trailer, and with Stet-Downstream-Id and
// Stet-Downstream-Key, the names by which a provider knows the effect (see [stet.Claim.Downstream];
// visible ASCII, at most 255 bytes). These fields go no further. An answer without Content-Type
// stays without one.
//
// Interim answers, trailers, event streams and upgrades are passed on as they come. Upgrades, which
// are GETs, are not guarded. Redirects are left to the client.
//
// # What is refused
//
// A request is refused before it has a route if its target can be read in more than one way, if its
// method is another spelling of a method that some route enables, if its framing is not certain, or
// if it is CONNECT. If no route enforces anything, only what no proxy to one server could pass on
// is refused.
//
// # Serving
//
// A [Server] listens, swaps its handler on reload, and drains.
//
// Logs hold nothing that net/http quotes of requests and answers, with one exception:
// [http.Transport] writes bytes that an upstream sent unasked to the standard logger of package
// log, on connections other than those of the gateway's own short path. A program can give that
// logger another output, as command stet does.
package gateway
