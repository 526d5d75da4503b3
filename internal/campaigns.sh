#!/bin/sh
# campaigns.sh          every campaign: what draws, repeats, measures, asks the network, or takes long
# campaigns.sh NAME...  those alone: lint, tests, race, fuzz, mutants, or a part of a package's path, such as linear
set -u
cd "$(dirname "$0")/.."
. internal/phases.sh
all=github.com/stet-dev/stet/...
export STET_CAMPAIGNS=1

lint() {
	GOBIN=$PWD/bin go install "$STATICCHECK" && CGO_ENABLED=0 bin/staticcheck $all && go test -vet=off ./internal/style
}

# tests are all tests with what the gate leaves out of them. What is drawn is drawn anew: STET_SEED repeats it.
tests() {
	CGO_ENABLED=0 go test -trimpath -vet=off -count=1 -p 2 -timeout 60m $all
}

race() {
	# shellcheck disable=SC2046 # the list is words
	STET_CAMPAIGNS= go test -race -vet=off -count=1 -p 2 -timeout 60m $(others)
}

fuzz() {
	sh internal/fuzz.sh "${FUZZTIME:-10s}"
}

mutants() {
	go run ./internal/mutants
}

# packages are the tests of tests whose package has the part in its path.
packages() {
	# shellcheck disable=SC2046 # the list is words
	CGO_ENABLED=0 go test -trimpath -vet=off -count=1 -p 2 -timeout 60m $(go list $all | grep -F "$part")
}

[ $# -gt 0 ] || set -- lint tests race fuzz mutants
status=0
for name in "$@"; do
	case $name in
	lint | tests | race | fuzz | mutants) part="" && (phases "$name") ;;
	*) part=$name && (phases packages) ;;
	esac || { status=1 && red="${red:-} $name"; }
done
[ $status = 0 ] || for name in $red; do echo "again: make campaigns ONLY=$name"; done
exit $status
