#!/bin/sh
# steady.sh PACKAGE [N]   whether the tests of a package pass N times in a row (20) beside two busy loops, as those of
#                         the gate have to: sh internal/steady.sh ./gateway; RUN=REGEXP takes some of them, RACE=1 is with
#                         the race detector
set -eu
cd "$(dirname "$0")/.."
package=$1 times=${2:-20}
file=$(mktemp)
flags="-trimpath"
[ -z "${RACE:-}" ] || flags="-race"
CGO_ENABLED=${RACE:-0} go test $flags -vet=off -c -o "$file" "$package"
dir=$(go list -f '{{.Dir}}' "$package")
loops=""
for _ in 1 2; do
	(while :; do :; done) &
	loops="$loops $!"
done
# shellcheck disable=SC2064,SC2086 # the loops are these
trap "kill $loops; rm -f $file" EXIT
cd "$dir"
n=0
while [ $n -lt "$times" ]; do
	n=$((n + 1))
	"$file" -test.run "${RUN:-.}" -test.timeout 20m >"$file.log" 2>&1 || {
		cat "$file.log"
		echo "run $n of $times failed"
		exit 1
	}
done
rm -f "$file.log"
echo "ok $package $times times"
