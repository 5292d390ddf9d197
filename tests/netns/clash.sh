#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# clash.sh - two SYNs wait in the queue for one translated tuple. The NAT gave the tuple out twice,
# as a waiting SYN is not in the conntrack table. The SYN that is confirmed first has the tuple, and
# conntrack drops the other one: the winner must not notice it.
#
# SIGSTOP makes the daemon hold the verdicts, and --to-ports with one port makes the NAT give that
# port to both clients. The loser gets it when the winner's connection is gone from conntrack. Some
# kernels, with some ISNs, give it to the loser as soon as the winner's connection is closed.

. "$(dirname "$0")/lib.sh"

PORT=20001

start_talk() { # FAMILY CLIENT
	rm -f "$TMP/talk.$2"
	spawn "$2" "$TMP/talk.$2" "$PYTHON" "$here/peer.py" talk "$(server "$1")" 7000 \
		--local-port $PORT \
		--bytes 200000 --pause "$TMP/go"
}

waiting() { # N: so many packets are in the queue
	[ "$(on gw awk '{ n += $3 } END { print n + 0 }' \
		/proc/net/netfilter/nfnetlink_queue)" = "$1" ]
}

received() { # CLIENT
	grep -q '^received' "$TMP/talk.$1"
}

# in_order FAMILY WINNER LOSER queue|no-bpf: clash, until the two SYNs have met in that order. With
# BPF programs the queue has two readers, and either may be the faster one.
in_order() {
	local i

	for i in 1 2 3 4 5 6 7 8; do
		if clash "$@"; then
			ok "$1, $4: $2 before $3: a clash is counted (at try $i)"
			return
		fi
	done
	not_ok "$1, $4: $2 before $3: a clash is counted in one of $i tries"
}

# clash FAMILY WINNER LOSER queue|no-bpf: fails when the loser's SYN was confirmed first, or
# decided when the winner's had left
clash() {
	local what="$1, $4: $2 before $3" winner loser met captures=() out=$TMP/check.json

	topology_up 2
	start_peer
	masquerade plain $PORT $PORT
	offload_off c1:eth0 c2:eth0 srv:eth0 gw:in1 gw:in2 gw:out
	must_start_tsnatd $(how "$4") --queues 1 # one queue keeps the order of its SYNs
	arm "$1" "$2" $PORT # the tuple has a last TSval that the winner's clock is below
	rm -f "$TMP/go"
	mark
	capture "$2" eth0 "$TMP/client.pcap" 2048 "$FILTER" --immediate-mode
	captures+=("$SPAWNED")
	capture srv eth0 "$TMP/server.pcap" 2048 "$FILTER" --immediate-mode
	captures+=("$SPAWNED")

	hold_queue
	start_talk "$1" "$2"
	winner=$SPAWNED
	wait_for 3 waiting 1
	start_talk "$1" "$3"
	loser=$SPAWNED
	wait_for 3 waiting 2
	waiting 2 || not_ok "$what: both SYNs wait"
	release_queue
	wait_for 5 eval "received $2 || received $3"
	if received "$3"; then
		note "$what: the other way round this time"
		forget_tsnatd
		return 1
	fi
	at_least "$what: one of them was dropped at confirm" "$(insert_failed)" 1
	# the loser's second SYN comes while the tuple is the winner's
	sleep 1.2
	touch "$TMP/go"
	wait "$winner"
	is "$what: the winner completes" "$? $(tail -n 1 "$TMP/talk.$2")" '0 received 200000'
	forget "$winner"
	is "$what: undisturbed: PAWSEstab, PAWSActive, refused, resets" \
		"$(since_all TcpExtPAWSEstab srv "$2") $(since "$2" TcpExtPAWSActive) $(refused) $(
			since_all TcpOutRsts srv "$2")" \
		'0 0 0 0'
	on gw conntrack -D -p tcp --dport 7000 --reply-port-dst $PORT >/dev/null 2>&1
	wait "$loser"
	is "$what: the loser gets the tuple after it" "$?" 0
	forget "$loser"
	capture_end "${captures[1]}" "$TMP/server.pcap"
	capture_end "${captures[0]}" "$TMP/client.pcap"
	met=$(stat_of clashes)

	check_capture "$out" --client "$TMP/client.pcap" "$TMP/server.pcap"
	is "$what: the winner's shift is one constant, and not 0" \
		"$(json "$out" shifted_connections) $(json "$out" violations)" '1 0'
	[ "$(json "$out" violations)" = 0 ] || sed 's/^/#   /' "$out"
	check_capture "$out" "$TMP/server.pcap"
	is "$what: at the server two connections, all above" \
		"$(json "$out" connections) $(json "$out" violations)" '2 0'
	[ "$(json "$out" violations)" = 0 ] || sed 's/^/#   /' "$out"
	forget_tsnatd
	[ "${met:-0}" -gt 0 ]
}

need_daemon
begin
in_order ipv4 c1 c2 queue
in_order ipv4 c2 c1 queue
in_order ipv6 c1 c2 queue
in_order ipv6 c2 c1 queue
in_order ipv4 c1 c2 no-bpf
in_order ipv6 c2 c1 no-bpf
finish
