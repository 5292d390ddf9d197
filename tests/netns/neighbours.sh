#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# neighbours.sh - other people's tables, filters, qdiscs, marks and conntrack entries on the gateway
# are as before after start, stop and --cleanup.

. "$(dirname "$0")/lib.sh"

# A classic BPF program of one instruction, which lets the next filter decide.
UNSPEC='1,6 0 0 4294967295'

foreign_filter() { # HOOK PREF
	on gw tc filter add dev out "$1" protocol all pref "$2" bpf direct-action bytecode \
		"$UNSPEC" ||
		die "tc takes no filter"
}

# foreign_rules STATEMENT: nft's statement with which they set connection marks
foreign_rules() {
	on gw nft -f - <<-END
		table inet foreign {
			set hosts { type ipv4_addr; elements = { 192.0.2.1, 192.0.2.2 }; }
			chain before { type filter hook postrouting priority 50;
				tcp dport 7000 $1; }
			chain same { type filter hook postrouting priority 110;
				ip daddr @hosts drop; }
			chain after { type filter hook postrouting priority 120;
				meta mark 0x77 drop; }
		}
		table ip tsnat { chain post { type filter hook output priority 0;
			tcp dport 9 drop; }; }
		table netdev foreign { chain in { type filter hook ingress device "out" priority 0;
			udp dport 9 drop; }; }
	END
}

# Everything that tc and nft say of the gateway, without counters.
snapshot() {
	on gw nft -s list ruleset 2>/dev/null
	for dev in out in1; do
		echo "== $dev"
		on gw tc qdisc show dev $dev
		on gw tc filter show dev $dev
		on gw tc filter show dev $dev ingress
		on gw tc filter show dev $dev egress
	done 2>&1 | sed 's/ direct_packets_stat [0-9]*//'
}

same() { # TEXT BEFORE AFTER
	local d

	if d=$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$3")); then
		ok "$1"
	else
		not_ok "$1" "$d"
	fi
}

# All that was there before is still there, whatever was added.
kept() { # TEXT BEFORE AFTER
	local d

	if d=$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") | grep '^<'); then
		not_ok "$1" "$d"
	else
		ok "$1"
	fi
}

setup() {
	topology_up 1
	start_peer
	masquerade plain
	on gw sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_time_wait=120 # entries are counted
}

cleanup_run() {
	on gw "$TSNATD" -i out --runtime-dir "$RUNTIME_DIR" --state-dir "$STATE_DIR" \
		--pin-dir "$PIN_DIR" --cleanup \
		>>"$LOG" 2>&1
}

# surroundings DECIDE: rules, filters before and behind ours, a qdisc, marks, conntrack entries
surroundings() {
	local what="$1" before entries marks='ct mark set 0x1234' ours=0

	# without BPF a bit of the mark is tsnatd's, and others have to leave it alone
	[ "$1" != no-bpf ] || marks='ct mark set ct mark | 0x1234' ours=$((0x20000))
	setup
	foreign_rules "$marks"
	on gw tc qdisc add dev out clsact
	for hook in ingress egress; do
		foreign_filter $hook 5
		foreign_filter $hook 60000
	done
	on gw tc qdisc replace dev out root handle 7: htb default 1
	on gw tc qdisc replace dev in1 root handle 8: htb default 1
	talk ipv4 c1 20009 >/dev/null
	entries=$(on gw conntrack -L -p tcp 2>/dev/null | wc -l)
	before=$(snapshot)

	must_start_tsnatd $(how "$1")
	kept "$what: all kept after start" "$before" "$(snapshot)"
	arm ipv4 c1 20001
	mark
	talk ipv4 c1 20001 >/dev/null
	is "$what: repairs beside them" "$(refused)" 0
	is "$what: their connection marks are as they set them" \
		"$(on gw conntrack -L -p tcp 2>/dev/null |
			grep -cE "mark=(4660|$((4660 | ours))) ")" $((entries + 1))
	stop_tsnatd
	kept "$what: all kept after stop" "$before" "$(snapshot)"
	is "$what: no rule of ours after stop" "$(on gw nft list tables | grep -c tsnatd)" 0
	is "$what: conntrack was not flushed" \
		"$(on gw conntrack -L -p tcp 2>/dev/null | wc -l)" $((entries + 1))
	succeeds "$what: --cleanup" cleanup_run
	same "$what: as before after --cleanup" "$before" "$(snapshot)"
	is "$what: no pins after --cleanup" "$(find "$PIN_DIR" -type f 2>/dev/null | wc -l)" 0
	forget_tsnatd
}

# The qdisc that we made is deleted at our end, unless it has somebody else's filter.
our_qdisc() {
	local before

	setup
	before=$(snapshot)
	must_start_tsnatd $(how "$1")
	is "own clsact: made at start" "$(on gw tc qdisc show dev out | grep -c clsact)" 1
	stop_tsnatd
	succeeds "own clsact: --cleanup" cleanup_run
	same "own clsact: gone after --cleanup" "$before" "$(snapshot)"

	must_start_tsnatd $(how "$1")
	foreign_filter egress 5
	stop_tsnatd
	succeeds "own clsact with a foreign filter: --cleanup" cleanup_run
	is "own clsact with a foreign filter: the filter survives" \
		"$(on gw tc filter show dev out egress | grep -c 'pref 5 ')" 2
	is "own clsact with a foreign filter: and is alone" \
		"$(on gw tc filter show dev out egress | grep -c tsnat)" 0
	forget_tsnatd
}

empty_foreign_qdisc() {
	local before

	setup
	on gw tc qdisc add dev out clsact
	before=$(snapshot)
	must_start_tsnatd $(how "$1")
	stop_tsnatd
	succeeds "foreign empty clsact: --cleanup" cleanup_run
	same "foreign empty clsact: survives" "$before" "$(snapshot)"
	forget_tsnatd
}

ingress_in_the_way() {
	local before

	setup
	on gw tc qdisc add dev out ingress
	before=$(snapshot)
	: >"$LOG"
	if start_tsnatd $(how "$1"); then
		not_ok "ingress qdisc in the way: refused"
		stop_tsnatd
	else
		is "ingress qdisc in the way: exit status" "$TSNATD_STATUS" 3
		succeeds "ingress qdisc in the way: said clearly" \
			grep -qiE 'out.*ingress|ingress.*out' "$LOG"
		note "it says: $(tail -n 1 "$LOG")"
	fi
	same "ingress qdisc in the way: all as before" "$before" "$(snapshot)"
	forget_tsnatd
}

rules_come_back() {
	setup
	must_start_tsnatd $(how "$1")
	on gw nft delete table ip tsnatd
	succeeds "$1: rules deleted by somebody come back" \
		wait_for 10 on gw nft list table ip tsnatd
	arm ipv4 c1 20001
	mark
	talk ipv4 c1 20001 >/dev/null
	is "$1: and SYNs are repaired" "$(refused)" 0
	forget_tsnatd
}

need_daemon
begin
try surroundings queue
try surroundings kernel
try surroundings no-bpf
try our_qdisc queue
try empty_foreign_qdisc queue
try ingress_in_the_way queue
try rules_come_back queue
try rules_come_back no-bpf
finish
