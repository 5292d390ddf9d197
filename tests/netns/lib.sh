# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# lib.sh - namespaces, traffic and measurements for the end-to-end tests and the demo. Sourced by bash scripts.
#
#                       gateway                                   server
#   client 1            +-------------------------------+         +-------------------+
#   +---------+         |                               |         |                   |
#   |    eth0 +---------+ in1   forwarding, MASQUERADE  |         |  nginx  :80       |
#   +---------+         |       nft, conntrack          |         |  peer.py :7000    |
#    10.77.1.2          |  10.77.1.1              out   +---------+ eth0              |
#    fd77:1::2          |  fd77:1::1          + tsnatd  |         |  tcpdump          |
#                       |                               |         |                   |
#   client 2            |               198.51.100.1    |         |  198.51.100.2     |
#   +---------+         |               2001:db8:77::1  |         |  2001:db8:77::2   |
#   |    eth0 +---------+ in2                           |         +-------------------+
#   +---------+         |                               |
#    10.77.2.2          |  10.77.2.1    wrk (as client  |
#    fd77:2::2          |  fd77:2::1     of its own)    |
#                       +-------------------------------+
#
# Namespaces are tsn-PID-c1, -c2, -gw and -srv; everything else that a run makes carries its PID too. Commands enter with
# nsenter: `ip netns exec` mounts a new /sys over the bpffs.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
TSNATD=${TSNATD:-$top/build/tsnatd}
read -ra TSNATD_ARGS <<<"${TSNATD_ARGS:-}" # more of tsnatd's arguments for every start: TSNATD_ARGS="--datapath queue"
TSNATCTL=${TSNATCTL:-$top/build/tsnatctl}
PYTHON=/usr/bin/python3
[ -x $PYTHON ] || PYTHON=python3

RUN=tsn-$$
PIN_DIR=/sys/fs/bpf/tsnatd-test-$$
RUNTIME_DIR=/run/tsnatd-test-$$
STATE_DIR=
TMP=

UPLINK=out # the gateway's outgoing interface
LOW=20000 # the external ports
HIGH=27999
SERVER4=198.51.100.2
SERVER6=2001:db8:77::2
FILTER='tcp port 80 or tcp port 7000'

PIDS=()       # processes to end
NAMESPACES=() # namespaces to delete
CLIENTS=()    # the inside hosts of the running scenario
TSNATD_PID=
PASSED=0
FAILED=0

note() { printf '# %s\n' "$*"; }
die() { printf 'Bail out! %s\n' "$*"; exit 1; }

# ---- start and end of a script -----------------------------------------------------------------------

begin() {
	local missing=() tool

	[ "$(id -u)" = 0 ] || die "network namespaces need root"
	for tool in nginx wrk ethtool tcpdump conntrack nft iptables-nft ip6tables-nft tc ip nsenter nstat curl python3; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] || die "missing: ${missing[*]}"
	trap cleanup EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	TMP=$(mktemp -d "${TMPDIR:-/tmp}/tsnatd-test.XXXXXX")
	STATE_DIR=$TMP/state
	mkdir -p "$STATE_DIR" "$RUNTIME_DIR"
	[ "$(stat -f -c %T /sys/fs/bpf)" = bpf_fs ] || mount -t bpf bpf /sys/fs/bpf || die "cannot mount bpffs"
	LOG=$TMP/tsnatd.log
	: >"$LOG"
}

need_daemon() {
	[ -x "$TSNATD" ] && [ -x "$TSNATCTL" ] || die "no $TSNATD and $TSNATCTL: run make first"
}

cleanup() {
	trap - EXIT
	trap '' HUP INT TERM
	topology_down
	[ -z "$TMP" ] || rm -rf "$TMP"
	rm -rf "$RUNTIME_DIR" "$PIN_DIR"
}

# Print the tally; the status of the script is its last command's.
finish() {
	printf '# %s: %d ok, %d not ok\n' "$(basename "$0" .sh)" "$PASSED" "$FAILED"
	[ "$FAILED" = 0 ]
}

# ---- results -------------------------------------------------------------------------------------------

ok() {
	PASSED=$((PASSED + 1))
	printf 'ok - %s\n' "$*"
}

# not_ok TEXT [DIAGNOSTIC...]
not_ok() {
	local line

	FAILED=$((FAILED + 1))
	printf 'not ok - %s\n' "$1"
	shift
	for line in "$@"; do
		printf '%s\n' "$line" | sed 's/^/#   /'
	done
	[ -z "$TSNATD_PID" ] || diagnose | sed 's/^/#   /'
}

diagnose() {
	ctl stats --json 2>&1 | tr -d '\n{}" ' | tr ',' '\n' | grep -v ':0$' | paste -sd' '
	tail -n 5 "$LOG"
}

is() { # TEXT ACTUAL EXPECTED
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "is '$2', expected '$3'"; fi
}

at_most() { # TEXT ACTUAL LIMIT
	if [ -n "$2" ] && [ "$2" -le "$3" ]; then ok "$1 ($2)"; else not_ok "$1" "is '$2', at most $3 expected"; fi
}

at_least() { # TEXT ACTUAL LIMIT
	if [ -n "$2" ] && [ "$2" -ge "$3" ]; then ok "$1 ($2)"; else not_ok "$1" "is '$2', at least $3 expected"; fi
}

succeeds() { # TEXT COMMAND...
	local text=$1 out

	shift
	if out=$("$@" 2>&1); then ok "$text"; else not_ok "$text" "$* -> $out"; fi
}

fails() { # TEXT COMMAND...
	local text=$1 out

	shift
	if out=$("$@" 2>&1); then not_ok "$text" "$* succeeded: $out"; else ok "$text"; fi
}

# ---- processes -------------------------------------------------------------------------------------------

on() { # NAMESPACE COMMAND...
	nsenter --net="/run/netns/$RUN-$1" "${@:2}"
}

# spawn NAMESPACE LOG COMMAND...: in the background; its PID is in SPAWNED
spawn() {
	nsenter --net="/run/netns/$RUN-$1" "${@:3}" >>"$2" 2>&1 </dev/null &
	SPAWNED=$!
	PIDS+=("$SPAWNED")
}

forget() { # PID: it has ended
	local pid kept=()

	for pid in "${PIDS[@]}"; do
		[ "$pid" = "$1" ] || kept+=("$pid")
	done
	PIDS=("${kept[@]}")
}

# end PID [SIGNAL]: at most 5 s later it is gone
end() {
	local i

	{ # bash tells of killed children
		kill -"${2:-TERM}" "$1"
		kill -CONT "$1"
		for ((i = 0; i < 100; i++)); do
			grep -q '^State:.[^Z]' "/proc/$1/status" || break
			sleep 0.05
		done
		kill -KILL "$1"
		wait "$1"
	} 2>/dev/null
	forget "$1"
}

# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
	local until=$((SECONDS + $1))

	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -le "$until" ] || return 1
		sleep 0.05
	done
}

# ---- topology --------------------------------------------------------------------------------------------

add_namespace() {
	ip netns add "$RUN-$1" || die "cannot create the namespace $RUN-$1"
	NAMESPACES+=("$RUN-$1")
	ip -n "$RUN-$1" link set lo up
	on "$1" sysctl -qw net.ipv4.tcp_timestamps=1 net.ipv6.conf.all.accept_dad=0 \
		net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0
}

# wire NAMESPACE IFACE ADDR4 ADDR6  NAMESPACE IFACE ADDR4 ADDR6
wire() {
	ip link add "$2" netns "$RUN-$1" type veth peer name "$6" netns "$RUN-$5" || die "cannot create veth"
	ip -n "$RUN-$1" addr add "$3" dev "$2"
	ip -n "$RUN-$1" addr add "$4" dev "$2" nodad
	ip -n "$RUN-$5" addr add "$7" dev "$6"
	ip -n "$RUN-$5" addr add "$8" dev "$6" nodad
	ip -n "$RUN-$1" link set "$2" up
	ip -n "$RUN-$5" link set "$6" up
}

# topology_up 1|2: that many clients, in fresh namespaces
topology_up() {
	local n

	topology_down
	add_namespace gw
	add_namespace srv
	on gw sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	on srv sysctl -qw net.ipv4.tcp_max_syn_backlog=8192 net.core.somaxconn=8192
	wire gw out 198.51.100.1/24 2001:db8:77::1/64 srv eth0 $SERVER4/24 $SERVER6/64
	for ((n = 1; n <= $1; n++)); do
		add_namespace c$n
		CLIENTS+=("c$n")
		wire gw in$n 10.77.$n.1/24 fd77:$n::1/64 c$n eth0 10.77.$n.2/24 fd77:$n::2/64
		ip -n $RUN-c$n route add default via 10.77.$n.1
		ip -n $RUN-c$n route add default via fd77:$n::1
	done
	wait_for 5 links_up || die "no carrier"
	conntrack_for_old_kernels
}

# Until the kernel has noticed the carrier it drops what is sent, and neighbour discovery tries again only after a second.
links_up() {
	local ns

	for ns in "${NAMESPACES[@]}"; do
		! ip -n "$ns" -o link show | grep -v 'lo:' | grep -v 'state UP' || return 1
	done
}

# Before 6.2 the NAT does not reuse the port of a closed connection while conntrack remembers it, which by default is longer than a
# server's TIME_WAIT. There a tuple is reused early only when the gateway forgets sooner, so it is told to.
conntrack_for_old_kernels() {
	local major minor

	IFS=.- read -r major minor _ <<<"$(uname -r)"
	[ $((major * 1000 + minor)) -ge 6002 ] || on gw sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_time_wait=1
}

# Ends everything that runs in the namespaces, too.
topology_down() {
	local ns pid

	stop_tsnatd
	for pid in "${PIDS[@]}"; do
		kill -TERM "$pid" 2>/dev/null
		kill -CONT "$pid" 2>/dev/null
	done
	for pid in "${PIDS[@]}"; do
		end "$pid"
	done
	for ns in "${NAMESPACES[@]}"; do
		for pid in $(ip netns pids "$ns" 2>/dev/null); do
			kill -KILL "$pid" 2>/dev/null
		done
		ip netns del "$ns" 2>/dev/null
	done
	PIDS=() NAMESPACES=() CLIENTS=()
	[ -z "$TMP" ] || rm -rf "$TMP/marks"
}

timestamps() { # 0|1|2 NAMESPACE...
	local ns

	for ns in "${@:2}"; do
		on "$ns" sysctl -qw net.ipv4.tcp_timestamps="$1"
	done
}

# The clients' own ports, so that plain MASQUERADE has no reason to change them.
client_ports() { # LOW HIGH NAMESPACE...
	local ns

	for ns in "${@:3}"; do
		on "$ns" sysctl -qw net.ipv4.ip_local_port_range="$1 $2"
	done
}

# Packets as they are on a wire: whole checksums, no segments merged or still to be cut.
offload_off() { # NAMESPACE:IFACE...
	local at

	for at in "$@"; do
		on "${at%:*}" ethtool -K "${at#*:}" tx off rx off tso off gso off gro off >/dev/null 2>&1 ||
			die "ethtool cannot switch off the offloads of $at"
	done
}

# masquerade plain|random [LOW HIGH] [iptables|nft]
masquerade() {
	local ports=${2:-$LOW}-${3:-$HIGH} flag='' ipt family

	if [ "${4:-iptables}" = nft ]; then
		[ "$1" = plain ] || flag=fully-random
		for family in ip ip6; do
			printf 'table %s tsn_nat\ndelete table %s tsn_nat\ntable %s tsn_nat {\n' $family $family $family
			printf 'chain post { type nat hook postrouting priority srcnat; '
			printf 'oifname "out" meta l4proto tcp masquerade to :%s %s; }\n}\n' "$ports" "$flag"
		done | on gw nft -f - || die "nft refuses the masquerade rule"
		return
	fi
	[ "$1" = plain ] || flag=--random-fully
	for ipt in iptables-nft ip6tables-nft; do
		on gw $ipt -t nat -F POSTROUTING
		on gw $ipt -t nat -A POSTROUTING -o out -p tcp -j MASQUERADE --to-ports "$ports" $flag ||
			die "$ipt refuses the masquerade rule"
	done
}

# ---- server and traffic ----------------------------------------------------------------------------------

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
	spawn srv "$TMP/nginx/log" nginx -p "$TMP/nginx" -e "$TMP/nginx/error.log" -c "$TMP/nginx/nginx.conf"
	wait_for 5 on srv curl -s -o /dev/null http://127.0.0.1/ ||
		die "nginx does not answer: $(cat "$TMP/nginx/log" "$TMP/nginx/error.log")"
}

start_peer() {
	: >"$TMP/peer.log"
	spawn srv "$TMP/peer.log" "$PYTHON" "$here/peer.py" serve 7000
	wait_for 5 grep -q serving "$TMP/peer.log" || die "peer.py does not serve: $(cat "$TMP/peer.log")"
}

server() { # ipv4|ipv6
	if [ "$1" = ipv6 ]; then echo $SERVER6; else echo $SERVER4; fi
}

url() { # ipv4|ipv6
	if [ "$1" = ipv6 ]; then echo "http://[$SERVER6]/"; else echo "http://$SERVER4/"; fi
}

# Open one connection from every external port, so that the server holds a TIME_WAIT for each. Leaves plain masquerading.
#
# The gateway's own sockets use other ports, which masquerading has to change: the kernel gives a closed connection's port to another
# one only if it was translated. For some of the last ports it finds it easier to use one twice.
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

# Short connections for SECONDS from all of the NAMESPACES at once, 100 in flight. Requests per second are in RATE.
load() { # ipv4|ipv6 SECONDS NAMESPACE...
	local family=$1 seconds=$2 ns pids=() pid

	shift 2
	rm -f "$TMP"/wrk.*
	for ns in "$@"; do
		spawn "$ns" "$TMP/wrk.$ns" wrk -t1 -c$((100 / $#)) -d"$seconds" --timeout 10 \
			-H 'Connection: close' "$(url "$family")"
		pids+=("$SPAWNED")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
		forget "$pid"
	done
	RATE=$(sed -n 's/^Requests\/sec: *//p' "$TMP"/wrk.* | awk '{ s += $1 } END { printf "%d", s }')
}

# capture NAMESPACE IFACE FILE [SNAPLEN [FILTER [OPTION...]]]: its PID is in SPAWNED
#
# With --immediate-mode the last packets are not lost when it ends, but a high rate is too much for it.
capture() {
	: >"$3.log"
	spawn "$1" "$3.log" tcpdump -Z root -i "$2" -n -B 131072 -s "${4:-128}" -w "$3" "${@:6}" "${5:-$FILTER}"
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

# ---- measurements ------------------------------------------------------------------------------------------

conntrack_sum() { # FIELD: over all processors of the gateway
	on gw conntrack -S 2>/dev/null | grep -o "\b$1=[0-9]*" | awk -F= '{ s += $2 } END { print s + 0 }'
}

snmp() { # NAMESPACE COUNTER
	on "$1" nstat -asz 2>/dev/null | awk -v name="$2" '$1 == name { n = $2 } END { print n + 0 }'
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
	echo $(($(snmp "$1" "$2") - $(awk -v name="$2" '$1 == name { n = $2 } END { print n + 0 }' "$TMP/marks/$1")))
}

since_all() { # COUNTER NAMESPACE...: summed
	local ns sum=0

	for ns in "${@:2}"; do
		sum=$((sum + $(since "$ns" "$1")))
	done
	echo $sum
}

# SYNs that the server refused because of their timestamps. Kernels before 6.14 count them as PAWSEstab.
refused() {
	echo $(($(since srv TcpExtPAWSTimewait) + $(since srv TcpExtPAWSEstab)))
}

# server_refuses_none TEXT CHECK [HANDFUL]: by the capture that CHECK tells of, and by the server's counter, which counts the last segments
# of a connection too when they overtook each other.
server_refuses_none() {
	local overtaken

	overtaken=$(json "$2" overtaken_segments)
	at_most "$1: SYNs that the server refuses" "$(json "$2" challenge_acks)" "${3:-0}"
	at_most "$1: PAWSTimewait" "$(since srv TcpExtPAWSTimewait)" $((${3:-0} + ${overtaken:-0}))
}

insert_failed() {
	echo $(($(conntrack_sum insert_failed) - MARK_INSERT_FAILED))
}

# capture_is_clean TEXT FILE BELOW: of check_capture's answer. No connection had two shifts, and at most BELOW SYNs were not above what their
# tuple sent before. Without BPF programs a segment may leave between the decision on a SYN and that SYN, so it is not always 0.
capture_is_clean() {
	is "$1: no shift changed" $(($(json "$2" violations) - $(json "$2" syn_not_above))) 0
	at_most "$1: SYNs not above their tuple's last TSval" "$(json "$2" syn_not_above)" "$3"
	[ "$(json "$2" violations)" = 0 ] || sed 's/^/#   /' "$2"
}

# ---- tsnatd ------------------------------------------------------------------------------------------------

# start_tsnatd ARGS...: in the gateway, ready when this returns 0
start_tsnatd() {
	local sock=$TMP/notify.sock waiter

	rm -f "$sock"
	"$PYTHON" "$here/notify-wait.py" "$sock" 15 &
	waiter=$!
	wait_for 5 [ -S "$sock" ]
	NOTIFY_SOCKET=$sock spawn gw "$LOG" "$TSNATD" -i "$UPLINK" --runtime-dir "$RUNTIME_DIR" --state-dir "$STATE_DIR" \
		--pin-dir "$PIN_DIR" "$@" "${TSNATD_ARGS[@]}"
	TSNATD_PID=$SPAWNED
	while kill -0 $waiter 2>/dev/null && kill -0 "$TSNATD_PID" 2>/dev/null; do
		sleep 0.02
	done
	if kill -0 $waiter 2>/dev/null; then
		kill $waiter
		wait $waiter 2>/dev/null
		wait "$TSNATD_PID"
		TSNATD_STATUS=$?
		forget "$TSNATD_PID"
		TSNATD_PID=
		return 1
	fi
	wait $waiter
}

# Ways of deciding and shifting: in the queue or in the egress program, with the bpf datapath; or without BPF. WAYS in the environment picks some.
case " ${TSNATD_ARGS[*]} " in *' --datapath queue '*) WAYS=no-bpf ;; esac
WAYS=${WAYS:-queue kernel no-bpf}

# try FUNCTION ARGS...: unless one of them is a way that is not picked
try() {
	local arg

	for arg in "$@"; do
		case $arg in
		queue | kernel | no-bpf) [[ " $WAYS " == *" $arg "* ]] || return 0 ;;
		esac
	done
	"$@"
}

# how queue|kernel|no-bpf: the arguments for that way
how() {
	case $1 in
	no-bpf) echo --datapath queue ;;
	*) echo --datapath bpf --decide "$1" ;;
	esac
}

must_start_tsnatd() {
	start_tsnatd "$@" || die "tsnatd $* did not start: $(tail -n 5 "$LOG")"
}

stop_tsnatd() { # [SIGNAL]
	[ -n "$TSNATD_PID" ] || return 0
	end "$TSNATD_PID" "${1:-TERM}"
	TSNATD_PID=
}

children_of() { # PID
	grep -l "^PPid:[[:space:]]$1\$" /proc/[0-9]*/status 2>/dev/null | grep -o '[0-9]*'
}

# Stop the daemon's process, and its guardian first, which would answer for it: queued SYNs wait.
hold_queue() {
	local children

	children=$(children_of "$TSNATD_PID")
	kill -STOP $children "$TSNATD_PID"
}

release_queue() {
	local children

	children=$(children_of "$TSNATD_PID")
	kill -CONT "$TSNATD_PID" $children
}

# What a crash leaves behind, too: filters, rules, pins and state.
forget_tsnatd() {
	stop_tsnatd
	on gw "$TSNATD" -i "$UPLINK" --runtime-dir "$RUNTIME_DIR" --state-dir "$STATE_DIR" --pin-dir "$PIN_DIR" --cleanup \
		>>"$LOG" 2>&1
	rm -rf "$STATE_DIR" "$PIN_DIR"
	mkdir -p "$STATE_DIR"
}

ctl() { # ARGS of tsnatctl
	"$TSNATCTL" "$@" --socket "$RUNTIME_DIR/io.tsnatd.Gateway"
}

stat_of() { # COUNTER of tsnatctl stats
	ctl stats --json >"$TMP/stats.json" 2>/dev/null
	json "$TMP/stats.json" "$1"
}

# ---- a SYN that the server refuses -------------------------------------------------------------------------

# talk FAMILY NAMESPACE PORT [ARGS of peer.py talk]: one connection from that port to the peer at the server
talk() {
	on "$2" "$PYTHON" "$here/peer.py" talk "$(server "$1")" 7000 --local-port "$3" "${@:4}"
}

# arm FAMILY NAMESPACE PORT: the server holds a TIME_WAIT of the port, and the client's clock is below it now.
#
# With tcp_timestamps=1 a Linux client adds an offset of the address pair, or of the tuple, to the host's clock; with 2 it adds none.
# So one of the two is the lower clock, and which one the first connection tells.
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
