// Package admin is what operators see of a running gateway: an [http.Handler] for a listener of its own.
//
// It serves /livez and /readyz, /metrics, /policy.json, and the records: GET /api/v1/keys and GET /api/v1/keys/{scope}/{key}.
// A [Record] is what those say of a key: never the key itself, its request or its response, unless an operator asks for them
// with ?reveal=1, which is logged. Operator commands print the same documents.
//
// Who asks is said by a [Token], which has a [Role] and may be bound to scopes: what is in another scope is for it as if it did not
// exist. Wrong tokens are logged, audited, and slowed down by address. Every answer has the header [Marker], so that a client can
// tell that it talks to this handler before it shows its token.
package admin
