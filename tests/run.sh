#!/bin/bash
# Run tests one after the other and count their checks.
#
#	tests/run.sh [[-t SECONDS] [-2] PROGRAM]...
#
# Each program may take 600 s, or as long as -t says for those behind it. Of those behind -2, which
# need two processors for themselves, one that fails is run once more. Its first failures are shown,
# and shown again at the end. The second run counts.
#
# With TEST in the environment only programs of these names are run (the file's name, without
# directory).
#
# A test prints a line "ok ..." or "not ok ..." per check (TAP; cmocka does so when asked). One
# that prints none, is ended by its time limit, or exits non-zero without a "not ok", counts as one
# failure. "ok ... # SKIP reason" counts as skipped. The last line is "N passed, N failed, N
# skipped".
set -u
limit=600 runs=1
passed=0 failed=0 skipped=0 failures="" at_first=""
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CMOCKA_MESSAGE_OUTPUT=TAP

# Its checks are counted in p, f and s.
run() { # TEST
	local start=$SECONDS rc

	timeout -k 10 "$limit" bash -c "$1" >"$log" 2>&1 </dev/null
	rc=$?
	p=$(grep -cE '^ok' "$log")
	f=$(grep -cE '^not ok' "$log")
	s=$(grep -cE '^ok.*# SKIP' "$log")
	p=$((p - s))
	if [ $rc -ne 0 ] && [ "$f" -eq 0 ] || [ $((p + f + s)) -eq 0 ]; then
		f=$((f + 1))
		echo "not ok - $1: exit $rc after $p checks" >>"$log"
	fi
	printf '%-58s %4d passed %2d failed  %4d s\n' "${1#build/}" "$p" "$f" $((SECONDS - start))
	[ "$f" = 0 ] || show_failure
	grep -E '^ok.*# SKIP' "$log" | sed 's/^/    /'
}

show_failure() {
	{
		grep -E -A 12 '^not ok' "$log" | head -n 80
		echo ... the end:
		tail -n 40 "$log"
	} | sed 's/^/    /'
}

is_wanted() { # TEST
	local program=${1%% *}

	[ -z "${TEST:-}" ] || [[ " $TEST " == *" ${program##*/} "* ]]
}

failed_checks() { # TEST
	grep -E '^not ok' "$log" | sed "s|^|  ${1##*/}: |"
}

while [ $# -gt 0 ]; do
	case $1 in
	-t)
		limit=$2
		shift 2
		continue
		;;
	-2)
		runs=2
		shift
		continue
		;;
	esac
	is_wanted "$1" || {
		shift
		continue
	}
	run "$1"
	if [ "$f" -gt 0 ] && [ $runs -gt 1 ]; then
		at_first+=$(failed_checks "$1")$'\n'
		echo "again:"
		run "$1"
	fi
	[ "$f" = 0 ] || failures+=$(failed_checks "$1")$'\n'
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	shift
done
[ -z "$at_first" ] || printf 'failed in a first run:\n%s' "$at_first"
[ -z "$failures" ] || printf 'failures:\n%s' "$failures"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
