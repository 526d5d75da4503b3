#!/bin/sh
# fix.sh   mends what a program can mend: formatting, pages and files that tests write, go.work.sum
set -eu
cd "$(dirname "$0")/.."
gofmt -w .
go list -m all >/dev/null
go mod download
while read -r package test; do
	STET_CAMPAIGNS=1 CGO_ENABLED=0 go test -vet=off -count=1 -run "$test" "$package" -update >/dev/null || echo "go test -run $test $package -update: look at what it says"
done <<EOF
. TestStatesDoc
./stethttp TestProfilesDoc
./admin TestOpenAPI
./docs TestAssurance
./docs/problems .
./cmd/stet TestOperateDocsCauses|TestJSONContract|Doc$
EOF
git status --short
