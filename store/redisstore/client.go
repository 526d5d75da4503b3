package redisstore

import (
	"context"
	"errors"
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
	// out. Do must not send a command twice.
	Do(ctx context.Context, key string, command []string, then func(answer any) [][]string) ([]any, error)
}

// ServerError is an error that the server answered with. Its text says what to do about common
// ones.
type ServerError string

func (e ServerError) Error() string {
	code, _, _ := strings.Cut(string(e), " ")
	if mend := mends[code]; mend != "" {
		return "redis: " + string(e) + "; " + mend
	}
	return "redis: " + string(e)
}

// mends say what to do about an error, by the first word of its text.
var mends = map[string]string{
	"NOAUTH":      "the server wants a password: give the client one (redis://USER:PASSWORD@HOST)",
	"WRONGPASS":   "correct the user or the password that the client was given",
	"NOPERM":      "this user may not do that: give it the right (ACL SETUSER), or another user",
	"MOVED":       "the server is a node of a cluster, and the client takes it for one by itself: give it a client for clusters (redis+cluster://HOST,HOST)",
	"CLUSTERDOWN": "the cluster serves none of it: see CLUSTER INFO",
	"LOADING":     "the server reads its data after a start: wait for it",
	"READONLY":    "the server is a replica: give the client its master, or the sentinels (redis+sentinel://HOST,HOST/NAME)",
	"MASTERDOWN":  "the server is a replica without its master: give the client the master",
}

// answered reports whether err is an answer of the server that begins with code.
func answered(err error, code string) bool {
	e, ok := errors.AsType[ServerError](err)
	return ok && strings.HasPrefix(string(e), code)
}
