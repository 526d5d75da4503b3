// Package crash kills programs at every point at which they touch the world, and looks at what is
// left when they have been started again.
//
// A [Program] is an HTTP service on a database. The test is the outside world: the client, which
// asks with one idempotency key until there is a final answer; the provider, whose ledger outlives
// every crash; and the supervisor, which starts a program again that has died. A first life, in
// which the program is not killed, is watched: see package crashpoint for what a point is. Each
// point then gets a life that ends there, by SIGKILL of the process, and others until all is
// settled. No point is chosen by hand, and a statement that is added tomorrow is one.
//
// Points lie in the driver, and so enclose each call of a store and each commit of the caller's:
// what a store does in one call may be several statements, and dying between them is part of the
// matter.
//
// Where one thing ends and the next begins, nothing that others could see lies between: the usual
// run takes the two points for one. STET_SOAK=1 takes each, and also kills the processes that put
// things right, on each database.
//
// A life that never comes to its point ends well, and is judged as any other.
package crash
