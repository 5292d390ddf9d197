#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# unify.sh - policy unify, in both scopes, by whichever way tsnatd decides. Linux accepts
# connections of one client, of two, and of the gateway itself through reused ports, as main-job.sh
# shows for policy repair. Stricter servers have nothing to refuse either: one that compares
# timestamps per source address, one per tuple.

. "$(dirname "$0")/lib.sh"

CONNECTIONS=21000 # beyond the first use of each port
HANDFUL=10
STRICT4=198.51.100.9 # nobody's address; strict-server.py answers for it
STRICT6=2001:db8:77::9

# ---- Linux as the server ---------------------------------------------------------------------

# The checks of main-job.sh.
ordinary() { # FAMILY one|two|local SCOPE queue|kernel|no-bpf
	local what="$1, $2, scope $3, $4" cap file=$TMP/server.pcap out=$TMP/check.json clashing=0 \
		below=0 senders i

	case $2 in
	one) topology_up 1 && senders=(c1) ;;
	two) topology_up 2 && senders=(c1 c2) ;;
	local) topology_up 0 && senders=(gw) ;;
	esac
	start_nginx
	must_start_tsnatd --policy unify --scope "$3" $(how "$4")
	capture srv eth0 "$file"
	cap=$SPAWNED
	use_every_port "$1" "${senders[@]}"
	masquerade random
	mark
	for i in 1 2 3 4 5 6; do
		load "$1" 2 "${senders[@]}"
		[ "$(since srv TcpPassiveOpens)" -lt $CONNECTIONS ] || break
	done
	capture_end "$cap" "$file"
	check_capture "$out" "$file"
	[ "$2 $4" != 'two queue' ] || clashing=$(($(since srv TcpPassiveOpens) / 400))
	[ "$4" != no-bpf ] || clashing=$(($(since srv TcpPassiveOpens) / 300)) \
		below=$(($(json "$out" connections) / 5000))

	is "$what: no packet escaped the capture" "$LOST" 0
	at_least "$what: reuses in the capture" "$(json "$out" reuses)" 20000
	capture_is_clean "$what" "$out" $below
	server_refuses_none "$what" "$out" $((HANDFUL + below))
	at_most "$what: PAWSEstab" "$(since_all TcpExtPAWSEstab srv "${senders[@]}")" $HANDFUL
	at_most "$what: PAWSActive" "$(since_all TcpExtPAWSActive srv "${senders[@]}")" $HANDFUL
	at_most "$what: TSEcrRejected" \
		"$(since_all TcpExtTSEcrRejected srv "${senders[@]}")" $HANDFUL
	at_most "$what: wrong checksums" "$(since_all TcpInCsumErrors srv "${senders[@]}")" 0
	at_most "$what: SYN retransmissions" \
		"$(since_all TcpExtTCPSynRetrans "${senders[@]}")" $((10 * HANDFUL + clashing))
	at_least "$what: every SYN is shifted, but for the losers of clashes" \
		"$(stat_of syn_shifted)" \
		$(($(stat_of syn_seen) - $(stat_of passed_bad_option) -
			$(stat_of clashes) - HANDFUL))
	if [ "$4" = kernel ]; then
		at_most "$what: nothing was queued" "$(stat_of verdicts)" 0
	else
		at_least "$what: SYNs were decided in the queue" "$(stat_of verdicts)" $CONNECTIONS
		at_most "$what: SYNs left to the egress program" \
			"$(stat_of decided_at_egress)" $(($(stat_of syn_seen) / 100))
	fi
	is "$what: one destination" "$(ctl destinations --json | grep -o '"address"' | wc -l)" 1
	note "$what: $RATE requests/s, $(since srv TcpPassiveOpens) connections," \
		"clashes $(stat_of clashes)"
	forget_tsnatd
}

# ---- servers that do not exist any more ------------------------------------------------------

start_strict() { # address|tuple
	local mac

	mac=$(ip -n $RUN-srv -o link show eth0 | sed -n 's|.*link/ether \([^ ]*\).*|\1|p')
	ip -n $RUN-gw neigh replace $STRICT4 lladdr "$mac" dev out nud permanent
	ip -n $RUN-gw neigh replace $STRICT6 lladdr "$mac" dev out nud permanent
	: >"$TMP/strict.log"
	spawn srv "$TMP/strict.log" taskset -c 0 "$PYTHON" "$here/strict-server.py" "$1" eth0 \
		$STRICT4 $STRICT6
	STRICT=$SPAWNED
	wait_for 5 grep -q serving "$TMP/strict.log" ||
		die "strict-server.py: $(cat "$TMP/strict.log")"
}

strict() { # COUNTER
	local lines

	lines=$(wc -l <"$TMP/strict.log")
	kill -USR1 "$STRICT"
	wait_for 5 eval "[ \$(wc -l <$TMP/strict.log) -gt $lines ]"
	tail -n 1 "$TMP/strict.log" >"$TMP/strict.json"
	json "$TMP/strict.json" "$1"
}

# Both clients, the server and the daemon share one processor, so that no packet overtakes another
# on the way from the gateway to the server. A server that compares with all ports of an address
# would refuse a SYN that was overtaken by microseconds, as a clock of 1 MHz shows them.
strict_load() { # FAMILY SECONDS CLIENT...
	local client pids=() url="http://$STRICT4/"

	[ "$1" = ipv4 ] || url="http://[$STRICT6]/"
	for client in "${@:3}"; do
		spawn "$client" "$TMP/wrk.$client" taskset -c 0 wrk -t1 -c8 -d"$2" --timeout 10 \
			-H 'Connection: close' "$url"
		pids+=("$SPAWNED")
	done
	await "${pids[@]}"
}

start_on_one_processor() { # ARGS
	must_start_tsnatd --policy unify "$@"
	taskset -acp 0 "$TSNATD_PID" >/dev/null
}

setup_strict() { # MODE
	topology_up 2
	masquerade random $LOW $((LOW + 199))
	start_strict "$1"
}

strict_without() { # MODE
	setup_strict "$1"
	strict_load ipv4 3 c1 c2
	at_least "server that compares per $1, without tsnatd: refuses SYNs" "$(strict refused)" 8
}

strict_with() { # MODE FAMILY SCOPE DECIDE
	local what="server that compares per $1, $2, scope $3, $4"

	setup_strict "$1"
	start_on_one_processor --scope "$3" $(how "$4")
	strict_load "$2" 3 c1 c2
	is "$what: refuses nothing, discards no segment" \
		"$(strict refused) $(strict discarded)" '0 0'
	is "$what: its own TSvals come back as it sent them" "$(strict wrong_echo)" 0
	at_least "$what: connections served" "$(strict served)" 600
	at_least "$what: SYNs were shifted" "$(stat_of syn_shifted)" 600
	forget_tsnatd
}

# One of the two clients has a clock of 1 MHz. Its connection is silent while others come and go,
# so when it speaks again it is millions of ticks ahead of them; and just before, another one of
# that client has taken the destination's clock along by a little.
strict_with_fast_clock() { # DECIDE
	local what="server that compares per address, a client with a 1 MHz clock, $1" silent

	setup_strict address
	if ! on c2 "$PYTHON" "$here/usec-route.py" 10.77.2.1 2>"$TMP/error"; then
		ok "$what # SKIP $(cat "$TMP/error")"
		return
	fi
	start_on_one_processor --scope destination $(how "$1")
	: >"$TMP/silent"
	spawn c2 "$TMP/silent" taskset -c 0 "$PYTHON" -c "
import socket, time
def ask(s):
    s.sendall(b'GET')
    assert s.recv(999).startswith(b'HTTP/1.1 200')
    assert not s.recv(1)
s = socket.create_connection(('$STRICT4', 80))
print('connected', flush=True)
time.sleep(4)
ask(socket.create_connection(('$STRICT4', 80)))
ask(s)"
	silent=$SPAWNED
	wait_for 5 grep -q connected "$TMP/silent" || die "no connection: $(cat "$TMP/silent")"
	strict_load ipv4 6 c1
	strict_load ipv4 1 c1 c2
	wait "$silent"
	is "$what: the connection that was silent for 4 s ends well" \
		"$? $(tail -n 1 "$TMP/silent")" '0 connected'
	forget "$silent"
	is "$what: refuses nothing, discards no segment" \
		"$(strict refused) $(strict discarded)" '0 0'
	is "$what: its own TSvals come back as it sent them" "$(strict wrong_echo)" 0
	at_least "$what: connections served" "$(strict served)" 600
	forget_tsnatd
}

need_daemon
begin
try ordinary ipv4 two destination queue
try ordinary ipv4 two destination kernel
try ordinary ipv6 two tuple queue
try ordinary ipv6 two tuple kernel
try ordinary ipv4 local destination queue
try ordinary ipv6 local destination kernel
try ordinary ipv4 one tuple no-bpf
try ordinary ipv6 two destination no-bpf
strict_without address
try strict_with address ipv4 destination queue
try strict_with address ipv6 destination kernel
try strict_with address ipv6 destination no-bpf
try strict_with_fast_clock kernel
try strict_with_fast_clock queue
try strict_with_fast_clock no-bpf
strict_without tuple
try strict_with tuple ipv4 tuple queue
try strict_with tuple ipv6 tuple kernel
try strict_with tuple ipv4 tuple no-bpf
try strict_with tuple ipv4 destination kernel
finish
