// Package crash kills programs wherever they touch the world, and looks at what is left when they
// have been started again.
//
// A [Program] is an HTTP service on a database. The test is the outside world: the client, who asks
// with one idempotency key until there is a final answer; the provider, whose ledger outlives every
// crash; and whoever starts a program again that has died. A first life, in which nobody dies, is
// watched: each statement that reaches the database driver, each BEGIN, COMMIT and ROLLBACK, and
// each request to the provider is a point, before it, after it, and between a query and the end of
// its rows. Each point then gets a life that ends there, by SIGKILL of the process, and others
// until all is settled. So nobody picks the points, and a statement that is added tomorrow is one.
//
// Points lie in the driver, and so enclose each call of a store and each commit of the caller's:
// what a store does in one call may be several statements, and dying between them is part of the
// matter.
//
// Where one thing ends and the next begins, nothing that others could see lies between: the usual
// run takes the two points for one, and STET_SOAK=1 takes each, and also kills those who put things
// right.
//
// A point is named by what is done, and by how often that was done before in the same life, so that
// what goes on beside it (heartbeats, polls) does not move it. A life that never comes to its point
// ends well, and is judged as any other.
package crash
