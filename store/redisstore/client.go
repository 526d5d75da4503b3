package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Client sends commands to a server. It is safe for concurrent use.
type Client interface {
	// Do sends a command to the node that serves key, or to any node if key is "". If then is not
	// nil, Do calls it with the answer and sends the commands it returns, one after the other on
	// the same connection. It returns all answers; an answer is nil, an int64, a string, or a []any
	// of these.
	//
	// The error is a [ServerError] if the server answered with an error; that command was not
	// carried out. After any other error, including that of ctx, the commands may have been carried
	// out. Do must not send a command twice. A connection whose server is a replica
	// ([ServerError.Replica]) is not used again: its address may name another server by now.
	Do(ctx context.Context, key string, command []string, then func(answer any) [][]string) ([]any, error)
}

// ServerError is an error that the server answered with. Its text says what to do about common
// ones.
type ServerError string

func (e ServerError) Error() string {
	code, _, _ := strings.Cut(string(e), " ")
	if e.denies() {
		code = "NOPERM"
	}
	if mend := mends[code]; mend != "" {
		return "redis: " + string(e) + "; " + mend
	}
	return "redis: " + string(e)
}

// Replica reports whether the server takes no writes because it is a replica. It did nothing.
func (e ServerError) Replica() bool {
	return strings.HasPrefix(string(e), "READONLY ") || strings.HasPrefix(string(e), "MASTERDOWN ") || strings.Contains(string(e), " -READONLY ")
}

// denies reports whether the user may not do that. Scripts say so in other words than commands.
func (e ServerError) denies() bool {
	return strings.HasPrefix(string(e), "NOPERM") || strings.Contains(string(e), "The user executing the script can't") ||
		strings.Contains(string(e), "ACL failure in script")
}

// mends say what to do about an error, by the first word of its text.
var mends = map[string]string{
	"NOAUTH":      "the server wants a password: give the client one (redis://USER:PASSWORD@HOST)",
	"WRONGPASS":   "correct the user or the password that the client was given",
	"NOPERM":      "this user may not do that: give it the right (ACL SETUSER), or the client another user; docs/stores.md lists the rights",
	"MOVED":       "the server is a node of a cluster, and the client takes it for one by itself: give it a client for clusters (redis+cluster://HOST,HOST)",
	"CLUSTERDOWN": "the cluster serves none of it: see CLUSTER INFO",
	"LOADING":     "the server reads its data after a start: wait for it",
	"READONLY":    "the server is a replica: give the client its master, or the sentinels (redis+sentinel://HOST,HOST/NAME)",
	"OOM":         "the server is full: raise its maxmemory, or remove keys",
	"MISCONF":     "the server cannot write its files, as on a full disk: see its log",
	"NOREPLICAS":  "the server takes no writes without replicas (min-replicas-to-write): see INFO replication",
	"MASTERDOWN":  "the server is a replica without its master: give the client the master",
}

// answered reports whether err is an answer of the server that begins with one of the codes, behind
// ERR, which not every client leaves there.
func answered(err error, codes ...string) bool {
	e, ok := errors.AsType[ServerError](err)
	return ok && slices.ContainsFunc(codes, func(code string) bool { return strings.HasPrefix(strings.TrimPrefix(string(e), "ERR "), code) })
}
