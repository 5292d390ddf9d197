#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# double-nat.sh - an inside host is itself a NAT, with three hosts and their three clocks behind it.
# It makes ten thousand connections through a narrow range of external ports. None is refused.
#
#   client 1 +--+ inner                     gateway
#   client 2 +--+ MASQUERADE          +---+ MASQUERADE               +---+ server
#   client 3 +--+ --random-fully            --random-fully, tsnatd

. "$(dirname "$0")/lib.sh"

PORTS=500
HIGH=$((LOW + PORTS - 1))
CONNECTIONS=10000

inner_up() {
	local n ipt

	topology_up 0
	add_namespace inner
	on inner sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	wire gw in1 10.77.1.1/24 fd77:1::1/64 inner eth0 10.77.1.2/24 fd77:1::2/64
	ip -n $RUN-inner route add default via 10.77.1.1
	ip -n $RUN-inner route add default via fd77:1::1
	for ipt in iptables-nft ip6tables-nft; do
		on inner $ipt -t nat -A POSTROUTING -o eth0 -p tcp -j MASQUERADE --random-fully ||
			die "$ipt refuses the masquerade rule"
	done
	for n in 1 2 3; do
		add_namespace c$n
		CLIENTS+=("c$n")
		wire inner in$n 10.78.$n.1/24 fd78:$n::1/64 c$n eth0 10.78.$n.2/24 fd78:$n::2/64
		ip -n $RUN-c$n route add default via 10.78.$n.1
		ip -n $RUN-c$n route add default via fd78:$n::1
	done
	# three clocks: the host's; one with an offset per connection; and such a one in
	# microseconds, for IPv4 on kernels that have it
	timestamps 2 c1
	on c3 "$PYTHON" "$here/usec-route.py" 10.78.3.1 2>/dev/null ||
		note "no timestamps in microseconds here"
	start_nginx
	masquerade random
}

# Short connections of all clients, with pauses between (see restart.sh).
three_clients() { # FAMILY SECONDS
	local n pids=()

	echo 'function delay() return 2 end' >"$TMP/delay.lua"
	for n in 1 2 3; do
		spawn c$n "$TMP/wrk.c$n" wrk -t1 -c4 -d"$2" -s "$TMP/delay.lua" --timeout 10 \
			-H 'Connection: close' "$(url "$1")"
		pids+=("$SPAWNED")
	done
	await "${pids[@]}"
}

without() { # FAMILY
	inner_up
	mark
	three_clients "$1" 2
	at_least "$1: without tsnatd the server refuses SYNs" "$(refused)" 20
}

with() { # FAMILY DECIDE [ARGS]
	local what="$1, ${*:2}" cap file=$TMP/server.pcap out=$TMP/check.json n each=()

	inner_up
	must_start_tsnatd --decide "${@:2}"
	capture srv eth0 "$file"
	cap=$SPAWNED
	mark
	for n in 1 2 3 4 5 6; do
		three_clients "$1" 2
		[ "$(since srv TcpPassiveOpens)" -lt $CONNECTIONS ] || break
	done
	capture_end "$cap" "$file"
	check_capture "$out" --rate 0 "$file"

	is "$what: no packet escaped the capture" "$LOST" 0
	at_least "$what: connections" "$(since srv TcpPassiveOpens)" $CONNECTIONS
	at_least "$what: of which through a port that was used before" \
		"$(json "$out" reuses)" $(((CONNECTIONS - PORTS) * 9 / 10))
	for n in 1 2 3; do
		each+=("$(since c$n TcpActiveOpens)")
		at_least "$what: from client $n" "${each[-1]}" $((CONNECTIONS / 10))
	done
	server_refuses_none "$what" "$out"
	is "$what: every SYN above its tuple's last TSval" "$(json "$out" violations)" 0
	[ "$(json "$out" violations)" = 0 ] || sed 's/^/#   /' "$out"
	is "$what: PAWSEstab, PAWSActive, wrong checksums at the clients" \
		"$(since_all TcpExtPAWSEstab c1 c2 c3) $(since_all TcpExtPAWSActive c1 c2 c3) $(
			since_all TcpInCsumErrors c1 c2 c3)" '0 0 0'
	forget_tsnatd
}

need_daemon
begin
without ipv4
with ipv4 queue
with ipv4 kernel
with ipv6 kernel --policy unify
finish
