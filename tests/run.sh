#!/bin/bash
# Run tests one after the other and count what they say.
#
#	tests/run.sh [[-t SECONDS] PROGRAM]...
#
# Each program may take 600 s, or as long as -t says for those behind it.
#
# A test prints a line "ok ..." or "not ok ..." per check (TAP; cmocka does so when asked). One that prints none, is ended by
# its time limit, or exits non-zero without a "not ok", counts as one failure. "ok ... # SKIP reason" counts as skipped.
# The last line is "N passed, N failed, N skipped".
set -u
limit=600
passed=0 failed=0 skipped=0 failures=""
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CMOCKA_MESSAGE_OUTPUT=TAP

while [ $# -gt 0 ]; do
	if [ "$1" = -t ]; then
		limit=$2
		shift 2
		continue
	fi
	test=$1
	shift
	start=$SECONDS
	timeout -k 10 "$limit" bash -c "$test" >"$log" 2>&1 </dev/null
	rc=$?
	p=$(grep -cE '^ok' "$log")
	f=$(grep -cE '^not ok' "$log")
	s=$(grep -cE '^ok.*# SKIP' "$log")
	p=$((p - s))
	if [ $rc -ne 0 ] && [ "$f" -eq 0 ] || [ $((p + f + s)) -eq 0 ]; then
		f=$((f + 1))
		echo "not ok - $test: exit $rc after $p checks" >>"$log"
	fi
	printf '%-58s %4d passed %2d failed  %4d s\n' "${test#build/}" "$p" "$f" $((SECONDS - start))
	if [ "$f" -gt 0 ]; then
		sed 's/^/    /' "$log" | tail -n 80
		failures="$failures$(grep -E '^not ok' "$log" | sed "s|^|  ${test##*/}: |")"$'\n'
	fi
	grep -E '^ok.*# SKIP' "$log" | sed 's/^/    /'
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
[ -z "$failures" ] || printf 'failures:\n%s' "$failures"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ]
