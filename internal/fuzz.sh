#!/bin/sh
# Runs every fuzz target of the module in the current directory for the time given.
set -eu
grep -rl --include='*_test.go' '^func Fuzz' . 2>/dev/null | sort | while read -r file; do
	dir=$(dirname "$file")
	[ -z "$(find "$dir" -maxdepth 1 -name go.mod)" ] || [ "$dir" = . ] || continue
	case "$(cd "$dir" && go list -m -f '{{.Dir}}' 2>/dev/null)" in "$(pwd)") ;; *) continue ;; esac # another module's
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "fuzz $dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$dir"
	done
done
