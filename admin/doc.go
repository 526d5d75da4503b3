// Package admin is the HTTP API that operators use: an [http.Handler] for a listener of its own,
// apart from the one that serves clients.
//
// [New] makes it from an engine and a [Config]. It answers these paths; each needs a [Token] of the
// role named here, or of a higher one, except where the role is a dash:
//
//	GET     /livez                                 -         is it alive
//	GET     /readyz                                -         is it ready
//	GET     /api/v1/whoami                         viewer    whose token it is
//	GET     /api/v1/status                         viewer    what needs a person
//	GET     /api/v1/keys                           viewer    list records
//	GET     /api/v1/keys/{scope}/{key}             viewer    show one (operator: ?reveal=1)
//	DELETE  /api/v1/keys/{scope}/{key}             admin     drop a stored result
//	POST    /api/v1/keys/{scope}/{key}/resolve     operator  end an unknown outcome
//	POST    /api/v1/keys/{scope}/{key}/release     operator  say that nothing happened
//	POST    /api/v1/keys/{scope}/{key}/extend      operator  keep a result for longer
//	POST    /api/v1/keys/{scope}/{key}/probe       operator  ask the upstream
//	POST    /api/v1/keys/{scope}/{key}/note        operator  add to the audit trail
//	POST    /api/v1/keys/{scope}/{key}/snooze      operator  take it out of what calls for people
//	POST    /api/v1/keys/{scope}/{key}/hand        operator  hand it to a person
//	GET     /api/v1/incidents                      viewer    group unknown outcomes
//	GET     /api/v1/incidents/{incident}           viewer    show a group and its records
//	GET     /api/v1/find                           viewer    search (operator: also by key)
//	GET     /api/v1/store                          viewer    which store the records are in
//	POST    /api/v1/store/accept                   admin     take the store as it is
//	GET     /api/v1/audit                          viewer    list audit entries
//	POST    /api/v1/audit/erase                    admin     take out of them whom they are about
//	GET     /api/v1/bulk                           viewer    list jobs
//	POST    /api/v1/bulk                           operator  start a job
//	POST    /api/v1/bulk/count                     operator  count its records
//	GET     /api/v1/bulk/{job}                     viewer    show a job
//	GET     /api/v1/bulk/{job}/report              viewer    list what it did not change
//	POST    /api/v1/bulk/{job}/stop                operator  stop it where it is
//	GET     /api/v1/outbox                         viewer    list messages
//	GET     /api/v1/outbox/{message}               viewer    show one (operator: ?reveal=1)
//	POST    /api/v1/outbox/{message}/retry         operator  deliver it again
//	POST    /api/v1/outbox/{message}/discard       operator  give it up
//	POST    /api/v1/outbox/{message}/confirm       operator  say that it was delivered
//	GET     /api/v1/gateways                       viewer    the processes on the store
//	GET     /api/v1/routes                         viewer    what each route's requests were told
//	GET     /api/v1/config                         viewer    the effective configuration
//	POST    /hooks/reconcile                       -         a provider's signed notice
//	GET     /metrics                               viewer
//	GET     /policy.json                           viewer    the rules of the API's keys
//	GET     /openapi.json                          -         all of this, as OpenAPI 3.1
//	GET     /problems/                             -         a page for each problem code
//
// A record is also found without its scope, by its id: /api/v1/keys/{id}. A [Record] never has the
// key, the request or the response unless an operator asks for them, which is in the audit trail
// before it is answered. Operator commands print the same documents.
//
// A token may be bound to scopes: what is in another scope does not exist for it. Refused tokens
// are logged, audited, and slowed down by address. Every answer has the header [Marker], so that a
// client can tell that it talks to this handler before it shows a token.
package admin
