#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# mapping.sh - conntrack's entries: the inside tuple of a connection, entries that are deleted,
# evicted or reused while the server remembers their tuple, two SYNs for one entry, and packets that
# conntrack finds invalid.

. "$(dirname "$0")/lib.sh"

PORT=20001

setup() { # CLIENTS
	topology_up "$1"
	start_peer
	masquerade plain
	: >"$LOG"
}

# begin_from FAMILY CLIENT PORT: a connection that exchanges half of its bytes and waits for
# $TMP/go.CLIENT. Its PID is in OPEN.
begin_from() {
	rm -f "$TMP/talk.$2" "$TMP/go.$2"
	spawn "$2" "$TMP/talk.$2" "$PYTHON" "$here/peer.py" talk "$(server "$1")" 7000 \
		--local-port "$3" --bytes 20000 \
		--pause "$TMP/go.$2"
	OPEN=$SPAWNED
}

has_exchanged() { # CLIENT
	grep -q '^received' "$TMP/talk.$1"
}

open_from() { # FAMILY CLIENT PORT
	begin_from "$@"
	wait_for 10 has_exchanged "$2"
}

goes_on() { # TEXT PID CLIENT: it exchanges the other half
	touch "$TMP/go.$3"
	ends_well "$1" "$2" "$TMP/talk.$3" 20000
}

# connection EXTERNAL_PORT FIELD: of tsnatctl's list
connection() {
	ctl connections --json | "$PYTHON" -c '
import json, sys
for c in json.load(sys.stdin)["connections"]:
    if c["external_port"] == int(sys.argv[1]):
        print(c.get(sys.argv[2], "unknown"))' "$1" "$2"
}

inside_of() { # EXTERNAL_PORT
	echo "$(connection "$1" inside_address) $(connection "$1" inside_port)"
}

inside_is() { # EXTERNAL_PORT ADDRESS PORT
	[ "$(inside_of "$1")" = "$2 $3" ]
}

forget_entry() { # EXTERNAL_PORT
	on gw conntrack -D -p tcp --reply-port-dst "$1" --reply-port-src 7000 >/dev/null 2>&1
}

# ---- the inside tuple ------------------------------------------------------------------------

inside() { # FAMILY HOW
	local what="$1, $2" addr=10.77.1.2

	[ "$1" = ipv4 ] || addr=fd77:1::2
	setup 1
	# the port changes, so that the two tuples are not alike
	masquerade plain 25000 25000
	must_start_tsnatd $(how "$2")
	arm "$1" c1 21111
	open_from "$1" c1 21111 || not_ok "$what: connects" "$(cat "$TMP/talk.c1")"
	succeeds "$what: the inside tuple is shown" wait_for 3 inside_is 25000 $addr 21111
	is "$what: and the rest of it" \
		"$(connection 25000 destination_address) $(connection 25000 destination_port) $(
			connection 25000 state)" \
		"$(server "$1") 7000 established"
	[ "$2" = no-bpf ] || at_least "$what: with its shift" "$(connection 25000 shift)" 1
	goes_on "$what: the connection goes on" "$OPEN" c1
	forget_tsnatd
}

# Without events the mapping is known if it comes with the queued packet. If not, the daemon asks
# conntrack at its next start.
without_events() { # DECIDE
	local what="$1, conntrack_events = false" known

	setup 1
	masquerade plain 25000 25000
	printf 'conntrack_events = false;\ndecide = "%s";\n' "$1" >"$TMP/tsnatd.conf"
	must_start_tsnatd -c "$TMP/tsnatd.conf"
	arm ipv4 c1 21111
	mark
	open_from ipv4 c1 21111 || not_ok "$what: connects" "$(cat "$TMP/talk.c1")"
	is "$what: SYNs are repaired" "$(refused) $(stat_of connections_shifted)" '0 1'
	sleep 1
	known=$(inside_of 25000)
	case "$known" in
	'10.77.1.2 21111' | 'unknown unknown')
		ok "$what: the inside tuple is right or not known ($known)"
		;;
	*) not_ok "$what: the inside tuple is right or not known" "is '$known'" ;;
	esac
	stop_tsnatd
	must_start_tsnatd -c "$TMP/tsnatd.conf"
	succeeds "$what: started again, it has asked for it" \
		wait_for 3 inside_is 25000 10.77.1.2 21111
	goes_on "$what: the connection goes on" "$OPEN" c1
	forget_tsnatd
}

# many_open N: so many connections of c1, which stay. Their PID is in OPEN.
many_open() {
	: >"$TMP/many"
	spawn c1 "$TMP/many" "$PYTHON" -c "
import socket, time
many = [socket.create_connection(('$SERVER4', 7000)) for _ in range($1)]
print('open', flush=True)
time.sleep(1000)"
	OPEN=$SPAWNED
	wait_for 20 grep -q open "$TMP/many" || die "no $1 connections: $(cat "$TMP/many")"
}

with_mapping() { # how many connections whose inside tuple is known
	ctl connections --json | grep -o '"inside_address": *"10.77.1.2"' | wc -l
}

has_mappings() { [ "$(with_mapping)" = "$1" ]; }

# More connections than the daemon asks conntrack about at a time.
many_without_events() {
	local what="conntrack_events = false, 700 connections"

	setup 1
	echo 'conntrack_events = false;' >"$TMP/tsnatd.conf"
	must_start_tsnatd -c "$TMP/tsnatd.conf" --decide kernel
	sleep 1 # after its start it asks for older connections
	many_open 700
	is "$what: all have a record" "$(stat_of records)" 700
	note "$what: inside tuples known so far: $(with_mapping)"
	stop_tsnatd
	must_start_tsnatd -c "$TMP/tsnatd.conf" --decide kernel
	succeeds "$what: started again, it asks for all of them" wait_for 20 has_mappings 700
	end "$OPEN"
	forget_tsnatd
}

events_are_lost() { # the kernel had no room for one of them
	awk -v pid="$TSNATD_PID" '$2 == 12 && $9 > 0 { lost = 1 } END { exit !lost }' \
		<(on gw cat /proc/net/netlink)
}

# The main loop is stopped until its buffer of events is full.
overrun() {
	local what="events lost" i

	setup 1
	client_ports $LOW 24999 c1 # which the NAT keeps, so that port 26000 is not among them
	start_nginx
	must_start_tsnatd --decide kernel
	kill -STOP "$TSNATD_PID"
	for ((i = 0; i < 30; i++)); do
		! events_are_lost || break
		load ipv4 1 c1
	done
	succeeds "$what: the buffer is full" events_are_lost
	open_from ipv4 c1 26000 || not_ok "$what: connects" "$(cat "$TMP/talk.c1")"
	kill -CONT "$TSNATD_PID"
	succeeds "$what: the inside tuple is found all the same" \
		wait_for 20 inside_is 26000 10.77.1.2 26000
	at_least "$what: counted" "$(stat_of event_overruns)" 1
	goes_on "$what: the connection goes on" "$OPEN" c1
	forget_tsnatd
}

# ---- entries that go while the server remembers ----------------------------------------------

# high_then_low [SERVER_PORT]: PORT becomes one whose TIME_WAIT at the server has a TSval of c1
# that c2's clock is below.
#
# c2 has the host's clock; c1 has another offset from every port, half of them above it.
high_then_low() {
	local offset

	timestamps 1 c1
	timestamps 2 c2
	for ((PORT = 20001; PORT < 20040; PORT++)); do
		offset=$(talk ipv4 c1 $PORT | sed -n 's/^clock_offset //p')
		[ -n "$offset" ] || die "c1 does not connect from port $PORT"
		# in reach of signed comparison, over the run of the test
		[ "$offset" -lt 100000 ] || [ "$offset" -gt 2147000000 ] || return 0
	done
	die "no port of c1 has a higher clock"
}

# CASES 6
deleted() { # HOW
	local what="entry deleted while the server is in TIME_WAIT, $1"

	setup 2
	if [ "$1" != without ]; then
		must_start_tsnatd $(how "$1")
	fi
	high_then_low
	succeeds "$what: there was one" forget_entry $PORT
	mark
	open_from ipv4 c2 $PORT ||
		not_ok "$what: another host gets the port" "$(cat "$TMP/talk.c2")"
	if [ "$1" = without ]; then
		at_least "$what: and its lower clock is refused" "$(refused)" 1
		end "$OPEN"
		return
	fi
	is "$what: another host gets the port and is not refused, though its clock is lower" \
		"$(refused) $(since c2 TcpExtTCPSynRetrans)" '0 0'
	is "$what: as it is shifted" "$(stat_of connections_shifted)" 1
	succeeds "$what: the record tells of the new host" \
		wait_for 3 inside_is $PORT 10.77.2.2 $PORT
	goes_on "$what: it goes on" "$OPEN" c2
	forget_tsnatd
}

# CASES 7: the NAT itself takes the entry of a closed connection away, as it has but one port to
# give.
evicted() { # HOW
	local what="entry evicted for a new connection, $1" out=$TMP/compare.json client order port

	setup 2
	offload_off c1:eth0 c2:eth0 srv:eth0 gw:in1 gw:in2 gw:out
	must_start_tsnatd $(how "$1")
	high_then_low
	masquerade plain $PORT $PORT
	: >"$TMP/events"
	spawn gw "$TMP/events" conntrack -E -p tcp -e NEW,DESTROY -o timestamp
	sleep 0.3
	mark
	capture c2 eth0 "$TMP/client.pcap" 2048 "$FILTER" --immediate-mode
	client=$SPAWNED
	capture srv eth0 "$TMP/server.pcap" 2048 "$FILTER" --immediate-mode
	# only one whose ISN is beyond the old connection's may have its entry
	for ((port = 21001; port < 21020; port++)); do
		begin_from ipv4 c2 $port
		! wait_for 0 has_exchanged c2 || break
		end "$OPEN"
	done
	if ! has_exchanged c2; then
		# as before Linux 6.12
		ok "$what # SKIP the NAT does not evict"
		forget_tsnatd
		return
	fi
	sleep 1 # a DESTROY that was late has come by now
	order=$(grep -o 'NEW\|DESTROY' "$TMP/events" | paste -sd' ')
	note "$what: events: $order"
	succeeds "$what: the record tells of the new host" inside_is $PORT 10.77.2.2 $port
	is "$what: and keeps its shift" "$(stat_of connections_shifted)" 1
	goes_on "$what: the connection goes on" "$OPEN" c2
	capture_end "$SPAWNED" "$TMP/server.pcap"
	capture_end "$client" "$TMP/client.pcap"
	is "$what: not refused, PAWSEstab, PAWSActive" \
		"$(refused) $(since srv TcpExtPAWSEstab) $(since c2 TcpExtPAWSActive)" '0 0 0'
	check_capture "$out" --client "$TMP/client.pcap" "$TMP/server.pcap"
	is "$what: one shift from its SYN to its end" \
		"$(json "$out" shifted_connections) $(json "$out" violations)" '1 0'
	[ "$(json "$out" violations)" = 0 ] || sed 's/^/#   /' "$out"
	forget_tsnatd
}

# CASES 12: silence counts from the last packet, also that of a SYN that nobody answered.
rearmed() { # HOW
	local what="SYN without answer within the hold time, $1"

	setup 2
	must_start_tsnatd $(how "$1") --hold 6
	high_then_low
	forget_entry $PORT
	sleep 4
	on srv nft -f - <<-END
		table inet deaf { chain c { type filter hook prerouting priority raw;
			tcp dport 7000 counter drop; }; }
	END
	talk ipv4 c2 $PORT --timeout 0.5 >/dev/null 2>&1
	sleep 3.5
	on srv nft delete table inet deaf
	is "$what: 8 s after the connection's end its record is there" \
		"$(connection $PORT external_port)" $PORT
	forget_entry $PORT
	mark
	succeeds "$what: the next one connects" talk ipv4 c2 $PORT
	is "$what: and is not refused" "$(refused)" 0
	forget_tsnatd
}

# ---- two SYNs for one entry ------------------------------------------------------------------

waiting() { # N: so many packets are in the queue
	[ "$(on gw awk '{ n += $3 } END { print n + 0 }' \
		/proc/net/netfilter/nfnetlink_queue)" = "$1" ]
}

either_has_exchanged() {
	has_exchanged c1 || has_exchanged c2
}

# CASES 16, beside clash.sh: the inside tuple and the shift are those of the client that was first
clash() {
	local what="two SYNs wait for one tuple" shift inside pids=() first=c1 second=c2

	PORT=20001
	setup 2
	masquerade plain $PORT $PORT
	must_start_tsnatd --decide queue
	arm ipv4 c1 21001
	rm -f "$TMP"/talk.*
	hold_queue
	begin_from ipv4 c1 21001
	pids[1]=$OPEN
	wait_for 3 waiting 1
	begin_from ipv4 c2 21002
	pids[2]=$OPEN
	wait_for 3 waiting 2
	succeeds "$what: both wait" waiting 2
	release_queue
	wait_for 5 either_has_exchanged
	has_exchanged c1 || first=c2 second=c1
	inside="10.77.${first#c}.2 2100${first#c}"
	succeeds "$what: the record tells of the one that was first, $first" \
		wait_for 3 inside_is $PORT $inside
	shift=$(connection $PORT shift)
	sleep 2.5 # the other one tries again meanwhile
	is "$what: and the next SYNs of $second change nothing" \
		"$(inside_of $PORT) $(connection $PORT shift)" "$inside $shift"
	goes_on "$what: $first goes on" "${pids[${first#c}]}" $first
	end "${pids[${second#c}]}"
	forget_tsnatd
}

# While the daemon is stopped its guardian answers, so that the NAT's choice stands at once.
stopped() {
	local what="only the daemon is stopped" ms

	setup 1
	must_start_tsnatd --decide queue
	arm ipv4 c1 $PORT
	mark
	kill -STOP "$TSNATD_PID"
	ms=$(talk ipv4 c1 $PORT --timeout 5 | sed -n 's/^connected_ms //p')
	at_most "$what: the SYN waits, ms" "${ms:-9999}" 900
	is "$what: and is repaired" "$(refused)" 0
	kill -CONT "$TSNATD_PID"
	forget_tsnatd
}

# ---- segments without a mapping --------------------------------------------------------------

# CASES 17
untranslated() { # HOW
	local what="segments that conntrack finds invalid, $1" client shift records verdict

	setup 1
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	on gw sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0
	must_start_tsnatd $(how "$1")
	arm ipv4 c1 $PORT
	open_from ipv4 c1 $PORT || not_ok "$what: connects" "$(cat "$TMP/talk.c1")"
	shift=$(connection $PORT shift)
	records=$(stat_of records)
	capture c1 eth0 "$TMP/client.pcap" 2048 "$FILTER" --immediate-mode
	client=$SPAWNED
	capture srv eth0 "$TMP/server.pcap" 2048 "$FILTER" --immediate-mode
	succeeds "$what: conntrack forgets an open connection" forget_entry $PORT
	touch "$TMP/go.c1"
	sleep 1
	capture_end "$SPAWNED" "$TMP/server.pcap"
	capture_end "$client" "$TMP/client.pcap"
	verdict=$("$PYTHON" - \
		"$here/check-capture.py" "$TMP/client.pcap" "$TMP/server.pcap" <<-'END'
		import importlib.util, socket, sys
		spec = importlib.util.spec_from_file_location("check", sys.argv[1])
		check = importlib.util.module_from_spec(spec)
		spec.loader.exec_module(check)
		inside = socket.inet_aton("10.77.1.2")
		def sent(path):
		    return [bytes(s.ip[20:]) for s in check.segments(path) if s.src == inside]
		client, server = sent(sys.argv[2]), sent(sys.argv[3])
		print(len(server) > 0, all(s in client for s in server))
	END
	)
	is "$what: they leave untranslated, and as they came" "$verdict" 'True True'
	is "$what: nobody guessed a shift or made a record" \
		"$(connection $PORT shift) $(stat_of records)" "$shift $records"
	end "$OPEN"

	# a SYN that no NAT translates
	on gw iptables-nft -t nat -F POSTROUTING
	mark
	talk ipv4 c1 20999 --timeout 0.3 >/dev/null 2>&1
	at_least "$what: a SYN that was not translated is counted" "$(stat_of passed_no_mapping)" 1
	is "$what: and has no record" "$(stat_of records)" "$records"
	forget_tsnatd
}

need_daemon
begin
inside ipv4 queue
inside ipv6 queue
inside ipv4 kernel
inside ipv6 no-bpf
without_events queue
without_events kernel
many_without_events
overrun
deleted without
deleted queue
deleted kernel
deleted no-bpf
evicted queue
evicted kernel
rearmed kernel
clash
stopped
untranslated queue
untranslated kernel
finish
