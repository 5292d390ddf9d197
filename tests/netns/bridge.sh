#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# bridge.sh - the gateway's outgoing interface is a bridge, and br_netfilter shows netfilter each
# packet at the bridge's ports: a segment is shifted once, both ways.
#
#	client 1 --- in1 [lan] gateway [wan] out --- server
#
# NAT is undone at the port then, before the bridge's own ingress hook. So tsnatd with the bpf
# datapath is told the port's name.

. "$(dirname "$0")/lib.sh"

setup() {
	local port bridge addr

	topology_up 1
	for port in out in1; do
		bridge=wan
		[ $port = out ] || bridge=lan
		ip -n $RUN-gw link add $bridge type bridge forward_delay 0 ||
			die "cannot create a bridge"
		on gw sysctl -qw net.ipv6.conf.$bridge.accept_dad=0
		ip -n $RUN-gw -o addr show dev $port scope global | while read -r _ _ _ addr _; do
			ip -n $RUN-gw addr del "$addr" dev $port
			ip -n $RUN-gw addr add "$addr" dev $bridge nodad 2>/dev/null ||
				ip -n $RUN-gw addr add "$addr" dev $bridge
		done
		ip -n $RUN-gw link set $port master $bridge
		ip -n $RUN-gw link set $bridge up
	done
	on gw sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
	for addr in ip ip6; do
		printf 'table %s tsn_nat {\n' $addr
		printf 'chain post { type nat hook postrouting priority srcnat; '
		printf 'oifname "wan" meta l4proto tcp masquerade to :%s-%s; }\n}\n' $LOW $HIGH
	done | on gw nft -f - || die "nft refuses the masquerade rule"
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	wait_for 5 on c1 curl -s -o /dev/null --connect-timeout 1 http://$SERVER4:7000/ || true
	start_peer
	wait_for 5 reachable || die "no way through the bridges"
}

reachable() {
	talk ipv4 c1 20999 --timeout 1 && talk ipv6 c1 20999 --timeout 1
}

repaired() { # FAMILY DECIDE
	local what="$1, $2: bridge with br_netfilter"

	setup
	UPLINK=wan
	[ "$2" = no-bpf ] || UPLINK=out
	printf 'external = [ "198.51.100.1", "2001:db8:77::1" ];\n' >"$TMP/tsnatd.conf"
	must_start_tsnatd $(how "$2") -c "$TMP/tsnatd.conf"
	arm "$1" c1 20001
	mark
	both_captures
	succeeds "$what: 1 MB both ways" talk "$1" c1 20001 --bytes 1000000
	both_captures_end
	is_undisturbed "$what"
	is_shifted_whole "$what"
	is "$what: its SYN was decided once" "$(stat_of syn_shifted)" 1
	forget_tsnatd
}

[ -d /proc/sys/net/bridge ] || {
	echo "ok - no br_netfilter in this kernel # SKIP"
	exit 0
}
need_daemon
begin
try repaired ipv4 no-bpf
try repaired ipv6 no-bpf
try repaired ipv4 kernel
try repaired ipv6 queue
finish
