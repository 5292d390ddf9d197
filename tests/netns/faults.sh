#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# faults.sh - faults of the queue and of the interface: a foreign chain is deleted while a SYN
# waits, the queue is full, a SYN is longer than the part of it that is copied, the interface
# goes down and up and is renamed.

. "$(dirname "$0")/lib.sh"

FLOOD=15000 # with those that are sent again, more SYNs than the 20 000 that may wait

setup() {
	topology_up 1
	start_peer
	masquerade plain
}

# The kernel drops all queued packets then: the verdict comes late, and the client sends its SYN
# again.
chain_deleted() { # FAMILY DECIDE
	local what="$1, $2: a foreign base chain is deleted while a SYN waits" pid \
		out=$TMP/check.json

	setup
	on gw nft -f - <<-END
		table inet foreign {
			chain c { type filter hook output priority 300; }
		}
	END
	must_start_tsnatd $(how "$2")
	pid=$TSNATD_PID
	arm "$1" c1 20001
	mark
	capture srv eth0 "$TMP/server.pcap" 128 "$FILTER" --immediate-mode
	hold_queue
	talk_begins "$1" c1 20001
	wait_for 5 eval '[ "$(waiting)" -ge 1 ]' || not_ok "$what: the SYN waits"
	on gw nft delete table inet foreign
	is "$what: it is gone with the chain" "$(waiting)" 0
	release_queue
	talk_ends "$what: sent again, it connects" 20001 1000
	is "$what: the late verdict is counted" "$(stat_of verdicts_late)" 1
	is "$what: nothing is refused" "$(refused)" 0
	at_least "$what: it is shifted" "$(stat_of syn_shifted)" 1
	succeeds "$what: the daemon lives" kill -0 "$pid"
	forget_tsnatd
}

waiting() { # packets in the queue of SYNs
	on gw awk '$1 == 5150 || $1 == 5151 { n += $3 } END { print n + 0 }' \
		/proc/self/net/netfilter/nfnetlink_queue
}

queued() { # packets, by the counters of all rules that queue
	on gw nft list ruleset 2>/dev/null |
		sed -n '/^table ip6* tsnatd /,/^}/s/.* counter packets \([0-9]*\) .*queue.*/\1/Ip' |
		awk '{ n += $1 } END { print n + 0 }'
}

# Every packet that was queued has a verdict, or is counted as dropped or passed by.
all_accounted() {
	[ $(($(stat_of verdicts) + $(stat_of queue_dropped) + $(stat_of segments_dropped))) = \
		"$(queued)" ]
}

# Nobody reads. SYNs that the queue has no room for pass, and each is counted. The others are
# handled when the daemon runs again.
full() { # DECIDE
	local what="$1: $FLOOD SYNs while nobody reads" pid

	topology_up 1
	start_nginx
	masquerade plain 1024 65000
	must_start_tsnatd $(how "$1") --queues 1
	client_ports 1024 65000 c1
	hold_queue
	rm -f "$TMP/flood" "$TMP/go"
	spawn c1 "$TMP/flood" "$PYTHON" "$here/flood.py" $SERVER4 80 $FLOOD "$TMP/go"
	pid=$SPAWNED
	wait_for 30 grep -q '^early' "$TMP/flood"
	at_least "$what: those that there is no room for connect at once" \
		"$(sed -n 's/^early //p' "$TMP/flood")" 1000
	release_queue
	touch "$TMP/go"
	wait "$pid"
	is "$what: all connect in the end" "$(tail -n 1 "$TMP/flood")" "all $FLOOD"
	forget "$pid"
	at_least "$what: those that waited were handled" "$(stat_of verdicts)" 1000
	# its packet number tells how many were queued before
	on c1 curl -s -o /dev/null "$(url ipv4)"
	succeeds "$what: read and passed by are as many as were queued" wait_for 30 all_accounted
	at_least "$what: SYNs that passed by" "$(stat_of queue_dropped)" 1000
	note "$what: $(cat "$TMP/flood" | tr '\n' ' ') queued $(queued)," \
		"verdicts $(stat_of verdicts), passed by $(stat_of queue_dropped)," \
		"overruns $(stat_of queue_overruns)"
	forget_tsnatd
}

# TCP Fast Open: a SYN with a kilobyte of data, of which the daemon reads the headers alone.
long_syn() { # FAMILY DECIDE
	local what="$1, $2: a SYN with 1007 bytes of data"
	local syns='tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn or (ip6 and ip6[53] & 0x12 = 2)'

	setup
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	on c1 sysctl -qw net.ipv4.tcp_fastopen=0x5
	on srv sysctl -qw net.ipv4.tcp_fastopen=0x602
	must_start_tsnatd $(how "$2")
	arm "$1" c1 20001
	mark
	both_captures
	is "$what: arrives and is answered" \
		"$(on c1 "$PYTHON" "$here/flood.py" fastopen "$(server "$1")" 7000 20001)" 1000
	both_captures_end
	is_shifted_whole "$what"
	is "$what: its data came with it" \
		"$(tcpdump -nr "$TMP/server.pcap" "$syns" 2>/dev/null | grep -c 'length 1007')" 1
	is "$what: nothing refused" "$(refused)" 0
	forget_tsnatd
}

# Down, renamed, renamed back, up: a shifted connection goes on, and new ones are repaired.
interface() { # DECIDE
	local what="$1: interface down, renamed and up again"

	setup
	must_start_tsnatd $(how "$1")
	arm ipv4 c1 20001
	mark
	talk_half ipv4 c1 20001 100000
	is "$what: a shifted connection is open" "$(stat_of connections_shifted)" 1
	ip -n $RUN-gw link set out down
	ip -n $RUN-gw link set out name elsewhere
	sleep 0.3
	ip -n $RUN-gw link set elsewhere name out
	ip -n $RUN-gw link set out up
	wait_for 5 links_up
	talk_goes_on 20001
	talk_ends "$what: the connection goes on" 20001 100000
	is "$what: undisturbed: PAWSEstab, PAWSActive" \
		"$(since srv TcpExtPAWSEstab) $(since c1 TcpExtPAWSActive)" '0 0'
	if [ "$1" != no-bpf ]; then
		wait_for 5 eval \
			'[ "$(on gw tc filter show dev out egress | grep -c "\bid [0-9]")" = 1 ]'
		is "$what: one program at each hook" \
			"$(on gw tc filter show dev out egress | grep -c '\bid [0-9]') $(
				on gw tc filter show dev out ingress | grep -c '\bid [0-9]')" '1 1'
	fi
	arm ipv4 c1 20002
	mark
	talk ipv4 c1 20002 >/dev/null
	is "$what: new connections are repaired" "$(refused)" 0
	forget_tsnatd
}

need_daemon
begin
try chain_deleted ipv4 queue
try chain_deleted ipv6 no-bpf
try full queue
try full no-bpf
try long_syn ipv4 queue
try long_syn ipv6 no-bpf
try interface queue
try interface kernel
try interface no-bpf
finish
