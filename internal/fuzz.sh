#!/bin/sh
# fuzz.sh TIME            runs every fuzz target of the tree for the time given
# fuzz.sh TIME SECONDS    the same in random order, light packages alone, and begins none after so many seconds
set -eu
cd "$(dirname "$0")/.."
over=${2:+$(($(date +%s) + $2))}
grep -r --include='*_test.go' '^func Fuzz' . | sed -n 's/^\(.*\)\/[^/]*:func \(Fuzz[A-Za-z0-9_]*\)(.*/\1 \2/p' |
	if [ "$over" ]; then sort -R; else sort; fi |
	while read -r dir target; do
		[ -z "$over" ] || [ "$(date +%s)" -lt "$over" ] || break
		# The databases' drivers, which other modules import, take minutes to instrument.
		case $over$dir in [0-9]*./cmd/* | [0-9]*./internal/integration/*) continue ;; esac
		echo "fuzz $dir $target"
		out=$(go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$dir" </dev/null 2>&1) && continue
		# On a busy machine go reports the end of the time as an error of its own ("context deadline exceeded").
		case $out in *"Failing input"* | *panic* | *FAIL*build* | *"setup failed"*) ;; *"context deadline exceeded"*) continue ;; esac
		echo "$out"
		exit 1
	done
