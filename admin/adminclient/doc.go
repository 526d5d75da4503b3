// Package adminclient is a client of the admin API: of the gateway's admin listener, or of any
// handler of package admin.
//
// [New] makes a [Client] for a URL or a Unix socket, which has the methods of [admin.API], and
// [InProcess] one that calls a handler without a network. Documents are the types of packages operate
// and admin. Lists are read by page, or through an iterator: see [List]. A refusal is a [*Problem].
//
// A client shows its token to nothing but the admin API: the address first has to send an answer
// with [admin.Marker].
package adminclient
