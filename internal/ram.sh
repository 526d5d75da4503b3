#!/bin/sh
# Prints where tests put their files: memory, where there are 4 GiB of it to spare, or the directory of temporary files.
set -eu
spare=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
left=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
if [ "${spare:-0}" -ge 4194304 ] && [ "${left:-0}" -ge 8388608 ] && [ -w /dev/shm ]; then
	echo /dev/shm
else
	echo "${TMPDIR:-/tmp}"
fi
