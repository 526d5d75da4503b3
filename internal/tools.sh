#!/bin/sh
# Installs Debian packages that are missing. Without root, or off Debian, it says what to install and goes on: the tests
# that need it skip, with the reason, unless REQUIRE_SERVERS is set.
set -eu
missing=""
for package in "$@"; do
	dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "not installed:$missing (sudo apt-get install$missing)"
	[ -z "${REQUIRE_SERVERS:-}" ] || exit 1
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /usr/sbin/policy-rc.d ]; then # servers are started by the tests, on ports of their own
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod +x /usr/sbin/policy-rc.d
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get -o DPkg::Lock::Timeout=300 update -qq
# shellcheck disable=SC2086 # the list is words
apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing
