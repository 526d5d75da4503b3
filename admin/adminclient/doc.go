// Package adminclient is a client of the admin API: of the gateway's admin listener, or of any
// handler of package admin.
//
// [New] makes a [Client] for a URL or a Unix socket, and [InProcess] one that calls a handler
// without a network. Documents are the types of package admin. Lists are read by page, or through
// an iterator: see [List]. A refusal is a [*Problem].
//
// A client shows its token to nothing but the admin API: the address first has to send an answer
// with [admin.Marker].
package adminclient
