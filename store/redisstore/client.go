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

func (e ServerError) Error() string { return "redis: " + string(e) }

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
