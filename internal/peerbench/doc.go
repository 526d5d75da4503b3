// Package peerbench measures the middleware end to end, beside others that do the same work over
// the same Redis. It is a module of its own, because of what the others depend on.
//
//	go test -run '^$' -bench . -benchtime 1x
package peerbench
