# phases.sh is read by gate.sh and campaigns.sh: phases NAME... runs a function of each name, whatever becomes of the
# others, and ends with one list of what failed.

# failing are the packages and tests that an output of go test says have failed.
failing() {
	awk '
		/^--- FAIL: / { tests = tests " " $3 }
		/^panic: / && !seen { seen = 1; tests = tests " (" $0 ")" }
		/^FAIL\t/ { print "  " $2, /\[/ ? substr($0, index($0, "[")) : tests }
		/^(FAIL|ok  )\t/ { tests = ""; seen = 0 }
	' "$1"
}

phases() {
	logs=$(mktemp -d)
	trap 'rm -rf "$logs"' EXIT
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
	for phase in $failed; do
		echo "FAILED: $phase"
		failing "$logs/$phase"
	done
	[ -z "$failed" ]
}

# others are the packages of all modules but the root.
others() {
	go list $all | grep -vxF "$(go list ./...)"
}
