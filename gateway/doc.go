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
// When the execution timeout of a guarded request is over, its client is told so, and the gateway
// goes on reading for one more lease: an answer that comes by then is the result.
//
// # What the upstream sees
//
// Path, query and body are as the client sent them, and the host is in the one form by which routes
// are found: lower case, no dot at the end, no port that is the scheme's own. A request target in
// absolute-form does not choose the upstream. Headers lose the hop-by-hop fields (RFC 9110 section
// 7.6.1), fields that begin with Stet-, and other spellings of the key's and the scope's header.
// X-Forwarded-For, -Host, -Proto and Forwarded name the client alone or, from a trusted proxy, are
// appended to; Via is always appended to. A guarded request also has the key (see [UpstreamKey]),
// Stet-Attempt, Stet-Fence and Stet-Downstream-Key (see [stet.Claim.DownstreamKey]). It has no
// Expect, because its body is here already, and its body has a length whatever its framing was,
// unless it is empty: that is sent in chunks, so that no proxy in between takes it for none and
// sends the request again. An upstream that answers 411 to that has run nothing, and gets the
// request once more with a length (see [EmptyBody]).
//
// The upstream may answer with Stet-Outcome, also as a trailer, and with Stet-Downstream-Id and
// Stet-Downstream-Key, the names by which a provider knows the effect (see [stet.Claim.Downstream];
// visible ASCII, at most 255 bytes). These fields go no further. An answer without Content-Type
// stays without one.
//
// Interim answers, trailers, event streams and upgrades are passed on as they come, interim answers
// without fields that begin with Stet-. Upgrades pass where GET is not guarded; a guarded GET has
// its offer removed. Redirects are left to the client.
//
// # What is refused
//
// A request is refused before it has a route if its target can be read in more than one way, if its
// host is none that a server can have, if its method is another spelling of a method that some
// route enables, if its framing is not certain, or if it is CONNECT. If no route enforces anything,
// only what no proxy to one server could pass on is refused.
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
