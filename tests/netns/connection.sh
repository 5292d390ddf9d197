#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# connection.sh - one repaired connection: it keeps its shift while its SYN is sent again, while it
# carries 100 MB, and over the death of the daemon.

. "$(dirname "$0")/lib.sh"

MB100=100000000

setup() {
	topology_up 1
	keep_order c1:eth0 srv:eth0 gw:in1 gw:out
	start_peer
	masquerade plain
}

# Without tsnatd the server refuses the port's next SYN. Else the rest would prove nothing.
refusal_without() { # FAMILY PORT
	arm "$1" c1 "$2"
	mark
	talk "$1" c1 "$2" >/dev/null
	at_least "$1: without tsnatd the server refuses the SYN" "$(refused)" 1
}

# retransmission FAMILY DECIDE server|gateway|restart|kill
retransmission() {
	local what="$1, $2: SYN sent again after its SYN-ACK was lost at the $3" table

	case $3 in
	restart) what="$1, $2: SYN sent again after a restart" ;;
	kill) what="$1, $2: SYN sent again after SIGKILL and a new start" ;;
	esac
	setup
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	must_start_tsnatd $(how "$2")
	arm "$1" c1 20001
	mark
	# at the gateway it is lost behind the ingress program, which then knows of an answer that
	# the client did not get
	if [ "$3" = gateway ]; then
		on gw nft -f - <<-END
			table inet lossy { chain c {
				type filter hook prerouting priority raw;
				iifname "out" tcp flags & (syn | ack) == syn | ack \
					counter drop; }; }
		END
		table=gw
	else
		on srv nft -f - <<-END
			table inet lossy { chain c { type filter hook output priority 0;
				tcp flags & (syn | ack) == syn | ack counter drop; }; }
		END
		table=srv
	fi
	both_captures
	talk_begins "$1" c1 20001
	wait_for 3 eval "on $table nft list table inet lossy | grep -q 'packets [1-9]'" ||
		die "no SYN-ACK was dropped"
	case $3 in
	restart) stop_tsnatd ;;
	kill) stop_tsnatd KILL ;;
	esac
	[ -n "$TSNATD_PID" ] || must_start_tsnatd $(how "$2")
	# the server sends its SYN-ACK again, too, at about the same time: the client must not get
	# that one first
	wait_for 5 eval '[ "$(since c1 TcpExtTCPSynRetrans)" -ge 1 ]' ||
		die "the SYN was not sent again"
	on $table nft delete table inet lossy
	talk_ends "$what: connects" 20001 1000
	both_captures_end
	at_least "$what: it was sent again" "$(since c1 TcpExtTCPSynRetrans)" 1
	is_undisturbed "$what"
	is_shifted_whole "$what"
	forget_tsnatd
}

# small FAMILY DECIDE: whole packets of a whole connection that survives SIGKILL half way
small() {
	local what="$1, $2: 2 MB both ways, SIGKILL half way"

	setup
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	refusal_without "$1" 20000
	must_start_tsnatd $(how "$2")
	arm "$1" c1 20001
	mark
	both_captures
	talk_half "$1" c1 20001 2000000
	is "$what: connections_shifted is 1" "$(stat_of connections_shifted)" 1
	stop_tsnatd KILL
	# without BPF programs nothing applies the shift until the next start
	[ "$2" != no-bpf ] || must_start_tsnatd $(how "$2")
	talk_goes_on 20001
	talk_ends "$what: all arrives" 20001 2000000
	both_captures_end
	is_undisturbed "$what"
	is_shifted_whole "$what"
	at_least "$what: segments compared" "$(json "$COMPARED" compared)" 2000
	at_least "$what: right checksums, both sides" "$(json "$COMPARED" checksums_complete)" 4000
	forget_tsnatd
}

# large FAMILY DECIDE: segments merged and cut by the kernel, checksums left to the hardware that
# veth pretends to be
large() {
	local what="$1, $2: 100 MB both ways, SIGKILL half way" out=$TMP/check.json hook

	setup
	must_start_tsnatd $(how "$2")
	arm "$1" c1 20001
	mark
	capture srv eth0 "$TMP/server.pcap" 0 'tcp port 7000' -c 4000
	SERVER_CAPTURE=$SPAWNED
	talk_begins "$1" c1 20001 --bytes $MB100 --pause "$TMP/go.20001"
	talk_is_half 20001 20
	stop_tsnatd KILL
	talk_goes_on 20001
	talk_ends "$what: all arrives" 20001 $MB100
	capture_end "$SERVER_CAPTURE" "$TMP/server.pcap"
	is_undisturbed "$what"
	check_capture "$out" --checksums "$TMP/server.pcap"
	is "$what: the part captured at the server has nothing wrong" "$(json "$out" violations)" 0
	[ "$(json "$out" violations)" = 0 ] || sed 's/^/#   /' "$out"
	at_least "$what: with checksums that the hardware completes" \
		"$(json "$out" checksums_partial)" 1000

	must_start_tsnatd $(how "$2")
	for hook in ingress egress; do
		is "$1, $2: after the new start one program on $hook" \
			"$(on gw tc filter show dev out $hook | grep -c '\bid [0-9]')" 1
	done
	arm "$1" c1 20002
	mark
	talk "$1" c1 20002 >/dev/null
	is "$1, $2: after the new start SYNs are repaired" "$(refused)" 0
	forget_tsnatd
}

need_daemon
begin
try small ipv4 queue
try small ipv6 kernel
try small ipv4 no-bpf
try small ipv6 no-bpf
try large ipv4 kernel
try large ipv6 queue
try retransmission ipv4 queue server
try retransmission ipv6 queue gateway
try retransmission ipv4 queue restart
try retransmission ipv6 queue kill
try retransmission ipv4 kernel server
try retransmission ipv6 kernel gateway
try retransmission ipv4 no-bpf server
try retransmission ipv6 no-bpf gateway
try retransmission ipv6 no-bpf restart
try retransmission ipv4 no-bpf kill
finish
