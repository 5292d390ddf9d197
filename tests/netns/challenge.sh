#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# challenge.sh - TIME_WAITs that tsnatd never saw: the server refuses the first SYN, and its
# challenge ACK teaches the rest.
#
# Two cases in which the client's own reset does not help: a server with tcp_rfc1337=1 keeps its
# TIME_WAIT over the reset, and a firewall lets no challenge ACK through to the client.

. "$(dirname "$0")/lib.sh"

milliseconds() {
	sed -n 's/^connected_ms //p'
}

setup() { # RFC1337
	topology_up 1
	on srv sysctl -qw net.ipv4.tcp_rfc1337="$1"
	start_peer
	masquerade plain
}

# The rule stands at the gateway, behind the ingress program and behind the chain that queues. It
# drops short ACKs of open connections, too, but there are none here.
drop_challenge_acks() {
	on gw nft -f - <<-END
		table inet strict { chain c { type filter hook prerouting priority -105;
			iifname "out" tcp sport 7000 tcp flags & (syn | rst | ack) == ack \
				meta length <= 80 counter drop; }; }
	END
}

was_refused() {
	[ "$(refused)" -ge 1 ]
}

# without FAMILY RFC1337
without() {
	local what="$1, tcp_rfc1337=$2, without tsnatd"

	arm "$1" c1 20001
	mark
	if [ "$2" = 0 ]; then
		succeeds "$what: the client's reset cures it" talk "$1" c1 20001
	else
		fails "$what: no connection within 2.5 s" talk "$1" c1 20001 --timeout 2.5
	fi
	at_least "$what: refused SYNs" "$(refused)" 1
}

# with FAMILY RFC1337 DECIDE
with() {
	local what="$1, tcp_rfc1337=$2, $3" cap ms

	arm "$1" c1 20002
	must_start_tsnatd $(how "$3")
	mark
	capture srv eth0 "$TMP/server.pcap" 128 "$FILTER" --immediate-mode
	cap=$SPAWNED
	ms=$(talk "$1" c1 20002 --timeout 2.5 | milliseconds)
	at_least "$what: the first SYN is refused" "$(refused)" 1
	at_least "$what: its challenge ACK is seen" "$(stat_of challenge_acks)" 1
	at_most "$what: and the SYN sent again is above it, ms" "${ms:-9999}" 500
	mark
	ms=$(talk "$1" c1 20002 --timeout 2.5 | milliseconds)
	at_most "$what: the tuple's next SYN is accepted at once, ms" "${ms:-9999}" 500
	is "$what: without a refusal" "$(refused) $(since c1 TcpExtTCPSynRetrans)" '0 0'
	capture_end "$cap" "$TMP/server.pcap"
	check_capture "$TMP/check.json" "$TMP/server.pcap"
	is "$what: two connections, all above" \
		"$(json "$TMP/check.json" connections) $(json "$TMP/check.json" violations)" '2 0'
	[ "$(json "$TMP/check.json" violations)" = 0 ] || sed 's/^/#   /' "$TMP/check.json"
	forget_tsnatd
}

# unheard FAMILY DECIDE: the client never gets the challenge ACK, so it neither resets nor hurries
unheard() {
	local what="$1, $2, challenge ACKs dropped by a firewall" ms pid

	setup 0
	arm "$1" c1 20001
	drop_challenge_acks
	mark
	fails "$what, without tsnatd: no connection within 2.5 s" talk "$1" c1 20001 --timeout 2.5
	at_least "$what, without tsnatd: refused SYNs" "$(refused)" 2
	on gw nft delete table inet strict

	arm "$1" c1 20002
	must_start_tsnatd $(how "$2")
	drop_challenge_acks
	mark
	rm -f "$TMP/talk"
	spawn c1 "$TMP/talk" "$PYTHON" "$here/peer.py" talk "$(server "$1")" 7000 \
		--local-port 20002 --timeout 2.5
	pid=$SPAWNED
	wait_for 3 was_refused
	on gw nft delete table inet strict
	wait "$pid"
	is "$what: the SYN sent again after 1 s is above the one that was refused" "$?" 0
	forget "$pid"
	ms=$(milliseconds <"$TMP/talk")
	at_least "$what: it did wait for that, ms" "${ms:-0}" 900
	is "$what: refused once" "$(refused)" 1
	forget_tsnatd
}

need_daemon
begin
for rfc1337 in 0 1; do
	for family in ipv4 ipv6; do
		setup $rfc1337
		without $family $rfc1337
		try with $family $rfc1337 queue
	done
	setup $rfc1337
	try with ipv4 $rfc1337 kernel
	# With tcp_rfc1337 only time ends a TIME_WAIT whose TSval is above the clock of the next
	# SYN. A secret of the boot decides which of the client's two clocks is the lower one.
	setup $rfc1337
	try with ipv4 $rfc1337 no-bpf
	setup $rfc1337
	try with ipv6 $rfc1337 no-bpf
done
try unheard ipv4 queue
try unheard ipv6 kernel
try unheard ipv4 no-bpf
try unheard ipv6 no-bpf
finish
