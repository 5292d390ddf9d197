#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh [NAME...] - build and run the benchmarks tests/bench/NAME.c; all of them without names.
# Needs root.
#
# Arguments for one: BENCH_ARGS, for example BENCH_ARGS='-m 1000000'. The tables go to stdout,
# progress to stderr.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
[ $# -gt 0 ] || set -- $(cd tests/bench && ls ./*.c | sed 's|^\./||; s|\.c$||')

make -s build/tsnat.bpf.o build/all.a >&2
mkdir -p build/bench
for name in "$@"; do
	[ -e "tests/bench/$name.c" ] || {
		echo "run.sh: there is no benchmark $name" >&2
		exit 2
	}
	# the table of the datapath without BPF is measured where it is: in its own files, not in a
	# library's copy
	"${CC:-cc}" -std=gnu17 -Wall -Wextra -D_GNU_SOURCE -O2 -g -Idaemon -o "build/bench/$name" \
		"tests/bench/$name.c" \
		build/all.a -pthread -lbpf
	echo "$name:" >&2
	# shellcheck disable=SC2086
	"build/bench/$name" ${BENCH_ARGS:-}
done
