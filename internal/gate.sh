#!/bin/sh
# gate.sh PHASE...   runs each phase, whatever becomes of the others, and ends with one list of what failed
set -u
cd "$(dirname "$0")/.."
all=github.com/stet-dev/stet/...
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

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
	others=$(go list $all | grep -vxF "$(go list ./...)")
	# shellcheck disable=SC2086 # the list is words
	CGO_ENABLED=0 go test -trimpath -vet=off -p 3 -timeout 20m $others
	status=$?
	CGO_ENABLED=0 go test -C cmd -trimpath -vet=off -tags stetfault ./internal/dsn || status=1
	CGO_ENABLED=0 go test -trimpath -vet=off -run Alloc . ./internal/ability || status=1 # the race detector allocates by itself
	return $status
}

# failing are the packages and tests that an output of go test says have failed.
failing() {
	awk '
		/^--- FAIL: / { tests = tests " " $3 }
		/^panic: / && !seen { seen = 1; tests = tests " (" $0 ")" }
		/^FAIL\t/ { print "  " $2, /\[/ ? substr($0, index($0, "[")) : tests }
		/^(FAIL|ok  )\t/ { tests = ""; seen = 0 }
	' "$1"
}

failed=""
for phase in "$@"; do
	echo "== $phase"
	began=$(date +%s)
	{
		$phase
		echo $? >"$logs/status"
	} 2>&1 | tee "$logs/$phase"
	echo "== $phase: $(($(date +%s) - began)) s"
	[ "$(cat "$logs/status")" = 0 ] || failed="$failed $phase"
done
[ -n "$failed" ] || exit 0
for phase in $failed; do
	echo "FAILED: $phase"
	failing "$logs/$phase"
done
exit 1
