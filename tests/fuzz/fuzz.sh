#!/bin/bash
# Run each fuzzer for some seconds on seeds made from the vectors and on what earlier runs found
# (tests/fuzz/corpus).
#
#	tests/fuzz/fuzz.sh SECONDS FUZZER...
#
# A finding is left in build/fuzz/, and the test fails.
set -u
cd "$(dirname "$0")/../.."
seconds=$1
shift
seeds=build/fuzz/seeds
rm -rf $seeds && mkdir -p $seeds
/usr/bin/python3 tests/fuzz/make-seeds.py tests/vectors/segments.txt $seeds/fuzz-packet || exit 1
rc=0
for fuzzer in "$@"; do
	name=${fuzzer##*/}
	mkdir -p $seeds/"$name"
	cp tests/fuzz/corpus/"$name"/* $seeds/"$name"/ 2>/dev/null
	log=build/fuzz/$name.log
	if "$fuzzer" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
		-artifact_prefix=build/fuzz/"$name"- $seeds/"$name" >"$log" 2>&1; then
		inputs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
		echo "ok - $name: $inputs inputs in $seconds s"
	else
		tail -n 30 "$log"
		echo "not ok - $name"
		rc=1
	fi
done
exit $rc
