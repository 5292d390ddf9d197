#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# main-job.sh [ipv4|ipv6]... - connections through reused ports are accepted, at a rate, by
# whichever way tsnatd decides.
#
# The senders are one client, two clients with unrelated clocks, and the gateway's own sockets. Each
# goes three rounds. Without tsnatd the server refuses connections. With tcp_timestamps=2 all use
# one clock, a cure that only hosts with one clock have: its numbers are the measure. With tsnatd a
# capture at the server shows at least 20 000 reuses, and no SYN below a TSval that its tuple sent
# before.

. "$(dirname "$0")/lib.sh"

CONNECTIONS=21000 # beyond the first use of each port
HANDFUL=10 # events, while 20 000 connections without tsnatd have thousands

# setup WHO TIMESTAMPS: SENDERS are the namespaces that connect
setup() {
	case $1 in
	one) topology_up 1 && SENDERS=(c1) ;;
	two) topology_up 2 && SENDERS=(c1 c2) ;;
	local) topology_up 0 && SENDERS=(gw) ;;
	esac
	timestamps "$2" "${SENDERS[@]}"
	start_nginx
}

load_until() { # FAMILY CONNECTIONS
	local i

	for i in 1 2 3 4 5 6; do
		load "$1" 2 "${SENDERS[@]}"
		[ "$(since srv TcpPassiveOpens)" -lt "$2" ] || return 0
	done
}

without() { # FAMILY WHO: the problem
	setup "$2" 1
	use_every_port "$1" "${SENDERS[@]}"
	masquerade random
	mark
	load "$1" 1 "${SENDERS[@]}"
	at_least "$1, $2: without tsnatd the server refuses SYNs" "$(refused)" 50
}

reference() { # FAMILY WHO: the numbers with one clock for all
	setup "$2" 2
	use_every_port "$1" "${SENDERS[@]}"
	masquerade random
	mark
	load_until "$1" $CONNECTIONS
	REFERENCE_INSERT_FAILED=$(insert_failed)
	REFERENCE_SYN_RETRANS=$(since_all TcpExtTCPSynRetrans "${SENDERS[@]}")
	note "$1, $2: one clock: $RATE requests/s, $(since srv TcpPassiveOpens) connections," \
		"insert_failed $REFERENCE_INSERT_FAILED," \
		"SYN retransmissions $REFERENCE_SYN_RETRANS, refused $(refused)"
}

with() { # FAMILY WHO queue|kernel|no-bpf
	local what="$1, $2, $3" cap file=$TMP/server.pcap out=$TMP/check.json shifted clashing=0 \
		below=0

	setup "$2" 1
	must_start_tsnatd $(how "$3")
	capture srv eth0 "$file"
	cap=$SPAWNED
	use_every_port "$1" "${SENDERS[@]}"
	masquerade random
	mark
	load_until "$1" $CONNECTIONS
	capture_end "$cap" "$file"
	check_capture "$out" "$file"
	# Two SYNs that wait in the queue, put there by two processors, may be given one port; then
	# one of them is dropped. Without BPF programs segments wait, too, so that happens more
	# often.
	[ "$2 $3" != 'two queue' ] || clashing=$(($(since srv TcpPassiveOpens) / 400))
	[ "$3" != no-bpf ] || clashing=$(($(since srv TcpPassiveOpens) / 300)) \
		below=$(($(json "$out" connections) / 5000))

	is "$what: no packet escaped the capture" "$LOST" 0
	at_least "$what: reuses in the capture" "$(json "$out" reuses)" 20000
	capture_is_clean "$what" "$out" $below
	server_refuses_none "$what" "$out" $((HANDFUL + below))
	at_most "$what: PAWSEstab" "$(since_all TcpExtPAWSEstab srv "${SENDERS[@]}")" $HANDFUL
	at_most "$what: PAWSActive" "$(since_all TcpExtPAWSActive srv "${SENDERS[@]}")" $HANDFUL
	at_most "$what: TSEcrRejected" \
		"$(since_all TcpExtTSEcrRejected srv "${SENDERS[@]}")" $HANDFUL
	at_most "$what: wrong checksums" "$(since_all TcpInCsumErrors srv "${SENDERS[@]}")" 0
	at_most "$what: conntrack insert_failed" \
		"$(insert_failed)" $((REFERENCE_INSERT_FAILED + HANDFUL + clashing))
	at_most "$what: SYN retransmissions" "$(since_all TcpExtTCPSynRetrans "${SENDERS[@]}")" \
		$((REFERENCE_SYN_RETRANS + HANDFUL + clashing))
	shifted=$(stat_of syn_shifted)
	at_least "$what: SYNs were shifted" "$shifted" $((CONNECTIONS / 4))
	if [ "$3" = kernel ]; then
		at_least "$what: SYNs were decided at egress" \
			"$(stat_of decided_at_egress)" $CONNECTIONS
		at_most "$what: nothing was queued" "$(stat_of verdicts)" 0
	else
		at_least "$what: SYNs were decided in the queue" "$(stat_of verdicts)" $CONNECTIONS
		at_most "$what: SYNs left to the egress program" \
			"$(stat_of decided_at_egress)" $((CONNECTIONS / 100))
	fi
	note "$what: $RATE requests/s, $(since srv TcpPassiveOpens) connections," \
		"shifted $shifted, PAWSTimewait $(since srv TcpExtPAWSTimewait)," \
		"overtaken segments $(json "$out" overtaken_segments)," \
		"clashes $(stat_of clashes), insert_failed $(insert_failed)," \
		"SYN retransmissions $(since_all TcpExtTCPSynRetrans "${SENDERS[@]}")"
	forget_tsnatd
}

need_daemon
begin
[ $# -gt 0 ] || set -- ipv4 ipv6
for family in "$@"; do
	for who in one two local; do
		without "$family" $who
		reference "$family" $who
		try with "$family" $who queue
		try with "$family" $who kernel
		case "$family $who $WAYS" in
		'ipv4 one '* | 'ipv6 two '* | *' no-bpf') try with "$family" $who no-bpf ;;
		esac
	done
done
finish
