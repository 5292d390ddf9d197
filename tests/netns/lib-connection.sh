# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# lib-connection.sh - single connections to the peer, and both ends of them. Sourced by lib.sh.

# ---- a SYN that the server refuses, and other connections ------------------------------------

# talk FAMILY NAMESPACE PORT [ARGS of peer.py talk]: one connection from that port to the peer at
# the server
talk() {
	on "$2" "$PYTHON" "$here/peer.py" talk "$(server "$1")" 7000 --local-port "$3" "${@:4}"
}

# arm FAMILY NAMESPACE PORT: the server holds a TIME_WAIT of the port, and the client's clock is
# below it now.
#
# With tcp_timestamps=1 a Linux client adds an offset of the address pair, or of the tuple, to the
# host's clock; with 2 it adds none. The first connection tells which of these two clocks is lower.
arm() {
	local offset

	timestamps 1 "$2"
	offset=$(talk "$@" | sed -n 's/^clock_offset //p')
	[ -n "$offset" ] || die "no connection from port $3 to arm it with"
	timestamps 2 "$2"
	[ "$offset" -ge 2147483648 ] || return 0
	talk "$@" >/dev/null || die "no connection from port $3 to arm it with"
	timestamps 1 "$2"
}

declare -A TALK # PIDs of talks in the background, by port

# talk_begins FAMILY NAMESPACE PORT [ARGS of peer.py talk]: in the background. Its output is in
# $TMP/talk.PORT.
talk_begins() {
	rm -f "$TMP/talk.$3" "$TMP/go.$3"
	spawn "$2" "$TMP/talk.$3" "$PYTHON" "$here/peer.py" talk "$(server "$1")" 7000 \
		--local-port "$3" "${@:4}"
	TALK[$3]=$SPAWNED
}

# talk_half FAMILY NAMESPACE PORT [BYTES]: it has exchanged so much and waits to do it once more,
# until talk_goes_on
talk_half() {
	talk_begins "$1" "$2" "$3" --bytes "${4:-20000}" --pause "$TMP/go.$3"
	talk_is_half "$3" || die "no connection from port $3: $(cat "$TMP/talk.$3")"
}

talk_is_half() { # PORT [SECONDS]
	wait_for "${2:-10}" grep -q '^received' "$TMP/talk.$1"
}

talk_goes_on() { # PORT
	touch "$TMP/go.$1"
}

# talk_ends TEXT PORT [BYTES]: it got so much, or as much as talk_half sends, to the end
talk_ends() {
	ends_well "$1" "${TALK[$2]}" "$TMP/talk.$2" "${3:-20000}"
}

ends_well() { # TEXT PID OUTPUT BYTES, of peer.py talk
	local status

	wait "$2"
	status=$?
	forget "$2"
	if [ $status = 0 ] && grep -q "^received $4\$" "$3"; then
		ok "$1"
	else
		not_ok "$1" "$(cat "$3")"
	fi
}

# A talk_half of a shifted connection. Afterwards the client has its clock of before.
talk_half_shifted() { # PORT
	arm ipv4 c1 "$1"
	talk_half ipv4 c1 "$1"
	timestamps 1 c1
}

talk_completes() { # TEXT PORT
	talk_goes_on "$2"
	talk_ends "$1" "$2"
}

# ---- both ends -------------------------------------------------------------------------------

COMPARED= # check-capture's answer on both captures

# both_captures [FILTER]: whole packets at client 1 and at the server
both_captures() {
	capture c1 eth0 "$TMP/client.pcap" 2048 "${1:-tcp port 7000}" --immediate-mode
	CLIENT_CAPTURE=$SPAWNED
	capture srv eth0 "$TMP/server.pcap" 2048 "${1:-tcp port 7000}" --immediate-mode
	SERVER_CAPTURE=$SPAWNED
}

both_captures_end() {
	capture_end "$CLIENT_CAPTURE" "$TMP/client.pcap"
	capture_end "$SERVER_CAPTURE" "$TMP/server.pcap"
	COMPARED=$TMP/compare.json
	check_capture "$COMPARED" --checksums --client "$TMP/client.pcap" "$TMP/server.pcap"
}

# is_shifted_whole TEXT: both ends saw one connection, and the same one but for its shift
is_shifted_whole() {
	is "$1: shifted by one constant both ways, nothing else changed" \
		"$(json "$COMPARED" connections) $(json "$COMPARED" shifted_connections) $(
			json "$COMPARED" violations)" '1 1 0'
	[ "$(json "$COMPARED" violations)" = 0 ] || sed 's/^/#   /' "$COMPARED"
}

# is_undisturbed TEXT: since mark nothing was refused, discarded or reset
is_undisturbed() {
	is "$1: nothing refused, PAWSEstab 0, PAWSActive 0, no resets" \
		"$(refused) $(since c1 TcpExtPAWSEstab) $(since c1 TcpExtPAWSActive) $(
			since_all TcpOutRsts c1 srv)" '0 0 0 0'
	is "$1: no wrong checksum at either end" "$(since_all TcpInCsumErrors c1 srv)" 0
}
