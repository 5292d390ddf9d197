#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# sanitizer.sh - the daemon, built with AddressSanitizer and UndefinedBehaviorSanitizer, under
# traffic, questions, reloads, a lost interface and a stop: no sanitizer reports anything, and
# nothing leaks.

. "$(dirname "$0")/lib.sh"

TSNATD=$top/build/san/tsnatd

ask() { # everything that tsnatctl can ask
	local what

	for what in status stats connections destinations metrics; do
		ctl $what >/dev/null || return
	done
}

soak() { # FAMILY DECIDE ARGS...
	local what="$1, ${*:2}" pid

	topology_up 2
	start_nginx
	start_peer
	masquerade plain
	: >"$LOG"
	must_start_tsnatd $(how "$2") "${@:3}"
	pid=$TSNATD_PID
	arm "$1" c1 20001
	talk "$1" c1 20001 --bytes 1000000 >/dev/null || not_ok "$what: a connection"
	masquerade random $LOW $((LOW + 499))
	load "$1" 2 c1 c2
	at_least "$what: SYNs were seen" "$(stat_of syn_seen)" 500
	succeeds "$what: tsnatctl's questions are answered" ask
	kill -HUP "$pid"
	ip -n $RUN-gw link set out down
	ip -n $RUN-gw link set out up
	load "$1" 1 c1 c2
	succeeds "$what: and again" ask
	stop_tsnatd
	is "$what: the sanitizers say nothing" "$(grep -cE 'Sanitizer|runtime error' "$LOG")" 0
	grep -E -A 20 'Sanitizer|runtime error' "$LOG" | head -n 40 | sed 's/^/#   /'
	forget_tsnatd
}

[ -x "$TSNATD" ] || die "no $TSNATD: make check builds it"
grep -q __asan_init "$TSNATD" || die "$TSNATD is built without sanitizers"
begin
try soak ipv4 queue
try soak ipv6 kernel --policy unify
try soak ipv4 no-bpf
try soak ipv6 no-bpf --policy unify --scope tuple
finish
