// Package console is what operators see in a browser: an [http.Handler] that serves pages at / and
// hands everything that belongs to the admin API on to that API.
//
// [New] makes it from a [Door], such as the handler that [admin.New] makes. Every request is let in
// by the token of its user, and gets an [admin.API]: every page is drawn from its documents, and every
// change is a call of it. Roles, scopes of tokens, the audit trail and limits are the API's. What the
// API refuses, the console cannot do.
//
// The pages are plain HTML and work without scripts.
//
// Users sign in with a token of the API. Where the API asks for none, such as over loopback without
// configured tokens, neither does the console.
package console
