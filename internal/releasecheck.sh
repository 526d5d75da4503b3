#!/bin/sh
# releasecheck.sh   checks what a release consists of, as far as one machine can: the binary is static, stripped and says its
# version; the unit is right by systemd's own word, and leaves the gateway little beside what it needs. Needs systemd-analyze.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=${1:-v0.0.0-check}

(cd cmd && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/stet" ./stet)
if readelf --program-headers "$work/stet" | grep -q INTERP; then echo "the binary is not static" >&2; exit 1; fi
if readelf --sections "$work/stet" | grep -q '\.symtab'; then echo "the binary is not stripped" >&2; exit 1; fi
"$work/stet" version | grep -qF "stet $version " || { echo "the binary does not say $version" >&2; exit 1; }

sed "s|/usr/bin/stet|$work/stet|" packaging/stet.service >"$work/stet.service"
said=$(systemd-analyze verify "$work/stet.service" 2>&1) || { echo "$said" >&2; exit 1; }
[ -z "$said" ] || { echo "$said" >&2; exit 1; }
systemd-analyze security --offline=true --threshold=20 "$work/stet.service" >"$work/security" || { tail -n 1 "$work/security" >&2; exit 1; }
tail -n 1 "$work/security"
echo "the binary and the unit are as they should be"
