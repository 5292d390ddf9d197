#!/bin/bash
# C code is formatted as .clang-format says. Other versions of clang-format than Debian 12's differ
# in details, so they are not asked.
#
#	tests/format.sh [-i]	-i: format it
set -u
cd "$(dirname "$0")/.."
format=clang-format-14
command -v $format >/dev/null || format=clang-format
if ! $format --version 2>/dev/null | grep -q 'version 14\.'; then
	echo "ok - C code is formatted # SKIP there is no clang-format 14"
	exit 0
fi
mapfile -t files < <(find daemon tests -name '*.[ch]')
[ ${#files[@]} -gt 0 ] || { echo "not ok - C code is found"; exit 1; }
if [ "${1:-}" = -i ]; then
	exec $format -i "${files[@]}"
fi
if wrong=$($format --dry-run --Werror "${files[@]}" 2>&1); then
	echo "ok - C code is formatted"
else
	echo "not ok - C code is formatted"
	grep error: <<<"$wrong" | sed 's/^/# /'
	exit 1
fi
