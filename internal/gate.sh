#!/bin/sh
# gate.sh PHASE...   what make test and make quick run
set -u
cd "$(dirname "$0")/.."
. internal/phases.sh
all=github.com/stet-dev/stet/...

format() {
	changed=$(gofmt -l .)
	[ -z "$changed" ] || { echo "gofmt would change:" && echo "$changed" && return 1; }
}

vet() {
	CGO_ENABLED=0 go vet $all && CGO_ENABLED=0 go vet -C cmd -tags stetfault ./internal/dsn
}

# The root module has no driver and no C, and its goroutines share memory: here the race detector is on.
root() {
	go test -race -vet=off -p 2 -timeout 20m ./...
}

# All else is compiled as the binaries are that it starts. Three packages at a time: tests on servers wait most of theirs.
rest() {
	# shellcheck disable=SC2046 # the list is words
	CGO_ENABLED=0 go test -trimpath -vet=off -p 3 -timeout 20m $(others)
	status=$?
	CGO_ENABLED=0 go test -C cmd -trimpath -vet=off -tags stetfault ./internal/dsn || status=1
	CGO_ENABLED=0 go test -trimpath -vet=off -run Alloc . ./internal/ability || status=1 # the race detector allocates by itself
	return $status
}

# library is for while one types: the library alone, by what is cached, without the race detector and servers.
library() {
	CGO_ENABLED=0 go vet ./... && CGO_ENABLED=0 go test -vet=off ./...
}

phases "$@"
