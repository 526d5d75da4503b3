// Package admin is what operators see of a running gateway: an [http.Handler] for a listener of its own.
//
// It serves /livez and /readyz, /metrics, /policy.json, and the records: GET /api/v1/keys and GET /api/v1/keys/{scope}/{key}.
// A [Record] is what those say of a key: never the key itself, its request or its response, unless an operator asks for them
// with ?reveal=1, which is logged. Operator commands print the same documents.
package admin
