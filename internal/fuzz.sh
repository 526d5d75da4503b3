#!/bin/sh
# Runs every fuzz target of the module in the current directory for the time given.
set -eu
here=$(go env GOMOD)
grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	dir=$(dirname "$file")
	[ "$(cd "$dir" && go env GOMOD)" = "$here" ] || continue # another module's
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "fuzz $dir $target"
		out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$dir" </dev/null 2>&1) && continue
		# On a busy machine go reports the end of the time as an error of its own ("context deadline exceeded").
		case $out in *"Failing input"* | *panic* | *FAIL*build* | *"setup failed"*) ;; *"context deadline exceeded"*) continue ;; esac
		echo "$out"
		exit 1
	done
done
