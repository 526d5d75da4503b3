package redisstore

import (
	"context"
	"errors"
	"strings"
)

// Client sends commands. It is safe for concurrent use, and ctx bounds every call.
type Client interface {
	// Do sends a command to the node that serves key; "" is any node. Then, if then is not nil, it
	// sends what then makes of the answer, one after the other on the same connection, and returns
	// all answers. An answer is nil, an int64, a string, or a []any of these. The error is a
	// [ServerError] where the server answered with one, and nothing of the command that it answers
	// was done; any other error means that the commands may have been carried out. Do must not send
	// anything twice.
	Do(ctx context.Context, key string, command []string, then func(answer any) [][]string) ([]any, error)
}

// ServerError is an error that the server answered with.
type ServerError string

func (e ServerError) Error() string {
	code, _, _ := strings.Cut(string(e), " ")
	if mend := mends[code]; mend != "" {
		return "redis: " + string(e) + "; " + mend
	}
	return "redis: " + string(e)
}

// mends say what to do about an error, by the word it begins with.
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

// answered reports whether err is an answer of the server's that begins with one of the codes.
func answered(err error, codes ...string) bool {
	if err == nil {
		return false
	}
	var e ServerError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if strings.HasPrefix(string(e), code) {
			return true
		}
	}
	return false
}
