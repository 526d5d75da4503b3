// Package framing watches connections below net/http, which hides two things from handlers: a
// request that says in two ways where its body ends (RFC 9112 section 6.1), and the time that an
// HTTP/2 client takes for its header.
//
// [Listen] wraps the listener of an [http.Server]. Requests whose end is not certain reach the
// handler with the header [door.BadFrame]; the handler refuses them and closes the connection.
// Nothing else that a handler can see changes.
package framing
