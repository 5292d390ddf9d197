# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# lib-traffic.sh - server, load, captures and counters. Sourced by lib.sh.

# ---- server and traffic ----------------------------------------------------------------------

start_nginx() {
	mkdir -p "$TMP/nginx"
	cat >"$TMP/nginx/nginx.conf" <<-END
		daemon off;
		user root;
		worker_processes 1;
		pid $TMP/nginx/pid;
		error_log $TMP/nginx/error.log crit;
		events { worker_connections 8192; }
		http {
			access_log off;
			keepalive_timeout 0;
			client_body_temp_path $TMP/nginx/body;
			proxy_temp_path $TMP/nginx/proxy;
			fastcgi_temp_path $TMP/nginx/fastcgi;
			uwsgi_temp_path $TMP/nginx/uwsgi;
			scgi_temp_path $TMP/nginx/scgi;
			server {
				listen 80 backlog=8192;
				listen [::]:80 backlog=8192;
				location / { return 200 "ok\n"; }
			}
		}
	END
	spawn srv "$TMP/nginx/log" nginx -p "$TMP/nginx" -e "$TMP/nginx/error.log" \
		-c "$TMP/nginx/nginx.conf"
	wait_for 5 on srv curl -s -o /dev/null http://127.0.0.1/ ||
		die "nginx does not answer: $(cat "$TMP/nginx/log" "$TMP/nginx/error.log")"
}

start_peer() {
	: >"$TMP/peer.log"
	spawn srv "$TMP/peer.log" "$PYTHON" "$here/peer.py" serve 7000
	wait_for 5 grep -q serving "$TMP/peer.log" ||
		die "peer.py does not serve: $(cat "$TMP/peer.log")"
}

server() { # ipv4|ipv6
	if [ "$1" = ipv6 ]; then echo $SERVER6; else echo $SERVER4; fi
}

url() { # ipv4|ipv6
	if [ "$1" = ipv6 ]; then echo "http://[$SERVER6]/"; else echo "http://$SERVER4/"; fi
}

# Open one connection from every external port, so that the server holds a TIME_WAIT for each.
# Leaves plain masquerading.
#
# The gateway's own sockets use other ports, which masquerading has to change: NAT gives a closed
# connection's port to another connection only if it had translated the port. NAT may use a port
# twice before it finds the last free ones.
use_every_port() { # ipv4|ipv6 NAMESPACE...
	local i=0 n ns pid from pids=()

	masquerade plain
	n=$(($# - 1))
	for ns in "${@:2}"; do
		from=$LOW
		[ "$ns" != gw ] || from=$((LOW + 20000))
		spawn "$ns" "$TMP/ports.log" "$PYTHON" "$here/peer.py" ports "$(server "$1")" 80 \
			$((from + i)) $((from + HIGH - LOW)) $n
		pids+=("$SPAWNED")
		i=$((i + 1))
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || note "not every port was used: $(tail -n 1 "$TMP/ports.log")"
		forget "$pid"
	done
}

# Short connections for SECONDS from all of the NAMESPACES at once, 100 in flight. Requests per
# second are in RATE.
load() { # ipv4|ipv6 SECONDS NAMESPACE...
	local family=$1 seconds=$2 ns pids=()

	shift 2
	rm -f "$TMP"/wrk.*
	for ns in "$@"; do
		spawn "$ns" "$TMP/wrk.$ns" wrk -t1 -c$((100 / $#)) -d"$seconds" --timeout 10 \
			-H 'Connection: close' "$(url "$family")"
		pids+=("$SPAWNED")
	done
	await "${pids[@]}"
	RATE=$(sed -n 's/^Requests\/sec: *//p' "$TMP"/wrk.* |
		awk '{ s += $1 } END { printf "%d", s }')
}

# steady_load FAMILY NAMESPACE MS: short connections, four at a time, each with a pause of MS
# before it. Goes on until its process ends: its PID is in SPAWNED, and its end is "end PID INT".
steady_load() {
	echo "function delay() return $3 end" >"$TMP/delay.lua"
	: >"$TMP/wrk"
	spawn "$2" "$TMP/wrk" wrk -t1 -c4 -d600 -s "$TMP/delay.lua" --timeout 10 \
		-H 'Connection: close' "$(url "$1")"
}

connections_since() { # N: at least so many reached the server since mark
	[ "$(since srv TcpPassiveOpens)" -ge "$1" ]
}

no_syn_sent() { # NAMESPACE: no connection of it is still being made
	! on "$1" ss -Htn state syn-sent | grep -q .
}

# capture NAMESPACE IFACE FILE [SNAPLEN [FILTER [OPTION...]]]: its PID is in SPAWNED
#
# With --immediate-mode the last packets are not lost when tcpdump ends, but it loses others at a
# high rate.
capture() {
	: >"$3.log"
	spawn "$1" "$3.log" tcpdump -Z root -i "$2" -n -B 131072 -s "${4:-128}" -w "$3" "${@:6}" \
		"${5:-$FILTER}"
	wait_for 5 grep -q 'listening on' "$3.log" || die "tcpdump: $(cat "$3.log")"
}

# capture_end PID FILE: the packets that tcpdump lost are in LOST
capture_end() {
	sleep 0.3
	end "$1"
	LOST=$(sed -n 's/^\([0-9]*\) packets dropped by kernel.*/\1/p' "$2.log")
}

check_capture() { # OUTPUT ARGS...
	"$PYTHON" "$here/check-capture.py" "${@:2}" >"$1" 2>&1
}

json() { # FILE KEY: a number of a flat object
	tr ',{}' '\n\n\n' <"$1" | sed -n 's/^ *"'"$2"'" *: *\(-\{0,1\}[0-9.]*\).*/\1/p' | head -n 1
}

# ---- measurements ----------------------------------------------------------------------------

conntrack_sum() { # FIELD: over all processors of the gateway
	on gw conntrack -S 2>/dev/null | grep -o "\b$1=[0-9]*" |
		awk -F= '{ s += $2 } END { print s + 0 }'
}

snmp() { # NAMESPACE COUNTER
	on "$1" nstat -asz 2>/dev/null |
		awk -v name="$2" '$1 == name { n = $2 } END { print n + 0 }'
}

# Remember all counters, for since().
mark() {
	local ns

	mkdir -p "$TMP/marks"
	for ns in "${NAMESPACES[@]}"; do
		on "${ns#"$RUN-"}" nstat -asz >"$TMP/marks/${ns#"$RUN-"}"
	done
	MARK_INSERT_FAILED=$(conntrack_sum insert_failed)
}

since() { # NAMESPACE COUNTER: how much it grew after mark
	local before

	before=$(awk -v name="$2" '$1 == name { n = $2 } END { print n + 0 }' "$TMP/marks/$1")
	echo $(($(snmp "$1" "$2") - before))
}

since_all() { # COUNTER NAMESPACE...: summed
	local ns sum=0

	for ns in "${@:2}"; do
		sum=$((sum + $(since "$ns" "$1")))
	done
	echo $sum
}

# SYNs that the server refused because of their timestamps. Kernels before 6.14 count them as
# PAWSEstab.
refused() {
	echo $(($(since srv TcpExtPAWSTimewait) + $(since srv TcpExtPAWSEstab)))
}

# server_refuses_none TEXT CHECK [HANDFUL]: neither CHECK, check_capture's answer, nor the server's
# counter tells of a refused SYN. The counter may tell of a HANDFUL: it counts the last segments of
# a connection, too, when they overtook each other.
server_refuses_none() {
	local overtaken

	overtaken=$(json "$2" overtaken_segments)
	at_most "$1: SYNs that the server refuses" "$(json "$2" challenge_acks)" "${3:-0}"
	at_most "$1: PAWSTimewait" "$(since srv TcpExtPAWSTimewait)" $((${3:-0} + ${overtaken:-0}))
}

insert_failed() {
	echo $(($(conntrack_sum insert_failed) - MARK_INSERT_FAILED))
}

# capture_is_clean TEXT FILE BELOW: FILE is check_capture's answer. No connection had two shifts,
# and at most BELOW SYNs were not above all that their tuple sent before. BELOW is not always 0:
# without BPF programs a segment may leave between the decision on a SYN and that SYN.
capture_is_clean() {
	is "$1: no shift changed" $(($(json "$2" violations) - $(json "$2" syn_not_above))) 0
	at_most "$1: SYNs not above their tuple's last TSval" "$(json "$2" syn_not_above)" "$3"
	[ "$(json "$2" violations)" = 0 ] || sed 's/^/#   /' "$2"
}
