#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# absent.sh - connections that need no shift, and connections while tsnatd is stopped, killed or
# hung.
#
# A connection that needs no shift leaves byte-identical. Without the daemon new connections work,
# and when nobody told the kernel to stop (SIGKILL, SIGSTOP) they are repaired all the same, by the
# egress program.

. "$(dirname "$0")/lib.sh"

PORTS=1000 # so that each is reused many times in a second or two

untouched() { # FAMILY DECIDE
	local what="$1, $2: untouched" port

	topology_up 1
	start_peer
	start_nginx
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	masquerade plain
	must_start_tsnatd $(how "$2")
	both_captures "$FILTER"
	for port in 20001 20002 20003 20004 20005; do
		talk "$1" c1 $port --bytes 100000 >/dev/null || not_ok "$what: port $port connects"
	done
	on c1 curl -s -o /dev/null "$(url "$1")" || not_ok "$what: curl gets an answer"
	both_captures_end
	is "$what: 6 connections, none shifted, all bytes alike after undoing NAT" \
		"$(json "$COMPARED" connections) $(json "$COMPARED" unshifted_connections) $(
			json "$COMPARED" violations)" '6 6 0'
	[ "$(json "$COMPARED" violations)" = 0 ] || sed 's/^/#   /' "$COMPARED"
	is "$what: no segment without its twin" \
		"$(json "$COMPARED" unmatched) $(json "$COMPARED" only_one_side)" '0 0'
	at_least "$what: segments compared" "$(json "$COMPARED" compared)" 500
	is "$what: all checksums right, all packets whole" \
		"$(json "$COMPARED" checksums_cut) $(json "$COMPARED" bad_checksum)" ' 0'
	is "$what: 6 SYNs seen, none shifted" "$(stat_of syn_seen) $(stat_of syn_shifted)" '6 0'
	forget_tsnatd
}

# away DECIDE TERM|KILL|STOP: new connections without the daemon, and one that is open and shifted
away() {
	local what="$1, SIG$2" cap out=$TMP/check.json

	HIGH=$((LOW + PORTS - 1))
	topology_up 1
	start_nginx
	start_peer
	masquerade plain
	must_start_tsnatd $(how "$1")
	capture srv eth0 "$TMP/server.pcap"
	cap=$SPAWNED
	use_every_port ipv4 c1
	arm ipv4 c1 $LOW
	talk_half ipv4 c1 $LOW
	is "$what: one connection is open and shifted" "$(stat_of connections_shifted)" 1
	timestamps 1 c1

	if [ "$2" = STOP ]; then
		kill -STOP "$TSNATD_PID"
	else
		stop_tsnatd "$2"
	fi
	masquerade random
	mark
	load ipv4 2 c1
	talk_goes_on $LOW
	talk_ends "$what: the open connection goes on" $LOW
	capture_end "$cap" "$TMP/server.pcap"
	at_least "$what: new connections work" "$(since srv TcpPassiveOpens)" 200
	if [ "$2" = TERM ]; then
		at_least "$what: as without tsnatd, some are refused" "$(refused)" 50
		is "$what: its rules are gone" "$(on gw nft list tables | grep -c tsnatd)" 0
	else
		check_capture "$out" "$TMP/server.pcap"
		at_least "$what: they reuse ports" "$(json "$out" reuses)" 2000
		is "$what: and every SYN is above its tuple's last TSval" \
			"$(json "$out" violations)" 0
		[ "$(json "$out" violations)" = 0 ] || sed 's/^/#   /' "$out"
		server_refuses_none "$what" "$out" 5
	fi
	forget_tsnatd
	HIGH=27999
}

# The guardian answers for a hung daemon. When it hangs as well, SYNs wait until the watchdog ends
# the daemon. Then a SYN that is sent again leaves.
all_hung() {
	local what='queue, daemon and guardian stopped'

	topology_up 1
	start_peer
	masquerade plain
	must_start_tsnatd $(how queue)
	arm ipv4 c1 20001
	mark
	hold_queue
	talk_begins ipv4 c1 20001
	sleep 0.5
	is "$what: the SYN waits in the queue" "$(cat "$TMP/talk.20001")" ''
	stop_tsnatd KILL # as the watchdog does
	talk_ends "$what: the connection is made after the watchdog's SIGKILL" 20001 1000
	is "$what: and repaired" "$(refused)" 0
	forget_tsnatd
}

need_daemon
begin
for decide in queue kernel; do
	try untouched ipv4 $decide
	try untouched ipv6 $decide
	try away $decide TERM
	try away $decide KILL
	try away $decide STOP
done
try untouched ipv4 no-bpf
try untouched ipv6 no-bpf
try all_hung queue
finish
