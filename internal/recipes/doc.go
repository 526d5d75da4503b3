// Package recipes holds the bridges between the middleware and other frameworks that docs/http.md
// shows, so that they are compiled and run. Each file below its imports stands there as it is. It
// is a module of its own, because of what the frameworks depend on.
package recipes
