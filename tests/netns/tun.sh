#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# tun.sh - an outgoing interface without Ethernet header, as those of PPP and WireGuard: a tun
# device takes the place of an Ethernet device of the same name while the daemon runs. Connections
# over it are repaired, with one constant and right checksums, also after a restart, and when the
# Ethernet device is back.

. "$(dirname "$0")/lib.sh"

start_wire() {
	ip -n $RUN-gw link del out
	: >"$TMP/wire.log"
	spawn gw "$TMP/wire.log" "$PYTHON" "$here/tun-wire.py" /run/netns/$RUN-gw out \
		/run/netns/$RUN-srv eth0
	WIRE=$SPAWNED
	wait_for 5 grep -q wired "$TMP/wire.log" || die "tun-wire.py: $(cat "$TMP/wire.log")"
	give_addresses
}

give_addresses() {
	local at ns

	for at in gw:out:1 srv:eth0:2; do
		IFS=: read -r ns dev n <<<"$at"
		ip -n $RUN-$ns addr add 198.51.100.$n/24 dev $dev
		ip -n $RUN-$ns addr add 2001:db8:77::$n/64 dev $dev nodad
		ip -n $RUN-$ns link set $dev up
	done
}

attached() { # N TEXT: the log says so N times
	[ "$(grep -c "out: attached .*$2" "$LOG")" = "$1" ]
}

repairs() { # TEXT FAMILY PORT
	local what="$1, $2"

	arm "$2" c1 "$3"
	mark
	both_captures
	succeeds "$what: connects and exchanges 200 kB both ways" talk "$2" c1 "$3" --bytes 200000
	both_captures_end
	is_undisturbed "$what"
	is_shifted_whole "$what"
}

over_tun() { # queue|kernel
	topology_up 1
	offload_off c1:eth0 gw:in1
	start_peer
	masquerade plain
	: >"$LOG"
	must_start_tsnatd --decide "$1"
	succeeds "$1: begins on an Ethernet device" attached 1 Ethernet
	start_wire
	succeeds "$1: a tun device takes its place: attached" \
		wait_for 10 attached 1 'no link header'
	repairs "$1, tun" ipv4 20001
	repairs "$1, tun" ipv6 20002
	stop_tsnatd KILL
	: >"$LOG"
	must_start_tsnatd --decide "$1"
	succeeds "$1: killed, it starts on the tun device" attached 1 'no link header'
	repairs "$1, tun, after SIGKILL" ipv4 20003
	end "$WIRE"
	ip link add out netns $RUN-gw type veth peer name eth0 netns $RUN-srv
	give_addresses
	offload_off gw:out srv:eth0
	succeeds "$1: an Ethernet device takes its place: attached" wait_for 10 attached 1 Ethernet
	repairs "$1, Ethernet after tun" ipv4 20004
	forget_tsnatd
}

need_daemon
begin
if ! [ -c /dev/net/tun ]; then
	ok "tun # SKIP no /dev/net/tun"
	finish
	exit
fi
topology_up 1
start_peer
masquerade plain
start_wire
arm ipv4 c1 20000
mark
talk ipv4 c1 20000 >/dev/null
at_least "tun, without tsnatd: the server refuses the SYN" "$(refused)" 1
over_tun queue
over_tun kernel
finish
