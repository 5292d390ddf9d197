# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# lib.sh - processes, results and namespaces for the end-to-end tests and the demo. It sources
# lib-traffic.sh (servers and traffic), lib-tsnatd.sh (the daemon) and lib-connection.sh (single
# connections). Sourced by bash scripts.
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
# Namespaces are tsn-PID-c1, -c2, -gw and -srv; everything else that a run makes carries its PID
# too. Commands enter with nsenter: `ip netns exec` mounts a new /sys over the bpffs.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
TSNATD=${TSNATD:-$top/build/tsnatd}
# more of tsnatd's arguments for every start: TSNATD_ARGS="--datapath queue"
read -ra TSNATD_ARGS <<<"${TSNATD_ARGS:-}"
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

# ---- start and end of a script ---------------------------------------------------------------

begin() {
	local missing=() tool

	[ "$(id -u)" = 0 ] || die "network namespaces need root"
	for tool in nginx wrk ethtool tcpdump conntrack nft iptables-nft ip6tables-nft tc ip \
		nsenter nstat curl python3; do
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
	[ "$(stat -f -c %T /sys/fs/bpf)" = bpf_fs ] || mount -t bpf bpf /sys/fs/bpf ||
		die "cannot mount bpffs"
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

# ---- results ---------------------------------------------------------------------------------

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
	if [ -n "$2" ] && [ "$2" -le "$3" ]; then
		ok "$1 ($2)"
	else
		not_ok "$1" "is '$2', at most $3 expected"
	fi
}

at_least() { # TEXT ACTUAL LIMIT
	if [ -n "$2" ] && [ "$2" -ge "$3" ]; then
		ok "$1 ($2)"
	else
		not_ok "$1" "is '$2', at least $3 expected"
	fi
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

# ---- processes -------------------------------------------------------------------------------

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

await() { # PID...: until they have ended by themselves
	local pid

	for pid in "$@"; do
		wait "$pid"
		forget "$pid"
	done
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

# ---- topology --------------------------------------------------------------------------------

add_namespace() {
	ip netns add "$RUN-$1" || die "cannot create the namespace $RUN-$1"
	NAMESPACES+=("$RUN-$1")
	ip -n "$RUN-$1" link set lo up
	on "$1" sysctl -qw net.ipv4.tcp_timestamps=1 net.ipv6.conf.all.accept_dad=0 \
		net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0
}

# wire NAMESPACE IFACE ADDR4 ADDR6  NAMESPACE IFACE ADDR4 ADDR6
wire() {
	ip link add "$2" netns "$RUN-$1" type veth peer name "$6" netns "$RUN-$5" ||
		die "cannot create veth"
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

# Until the kernel has noticed the carrier it drops packets, and neighbour discovery tries
# again only after a second.
links_up() {
	local ns

	for ns in "${NAMESPACES[@]}"; do
		! ip -n "$ns" -o link show | grep -v 'lo:' | grep -v 'state UP' || return 1
	done
}

# Before 6.2 the NAT does not reuse the port of a closed connection while conntrack remembers it,
# which by default is longer than a server's TIME_WAIT. So the gateway is told to forget sooner.
conntrack_for_old_kernels() {
	local major minor

	IFS=.- read -r major minor _ <<<"$(uname -r)"
	[ $((major * 1000 + minor)) -ge 6002 ] ||
		on gw sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_time_wait=1
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
		on "${at%:*}" ethtool -K "${at#*:}" tx off rx off tso off gso off gro off \
			>/dev/null 2>&1 ||
			die "ethtool cannot switch off the offloads of $at"
	done
}

# Packets of one flow stay in order. A veth pair hands a packet to the processor that sent it; a
# sender that moves to another one is overtaken by itself, and PAWS counts that, too.
keep_order() { # NAMESPACE:IFACE...
	local at

	for at in "$@"; do
		# with a /sys of that namespace
		ip netns exec "$RUN-${at%:*}" sh \
			-c "echo 1 >/sys/class/net/${at#*:}/queues/rx-0/rps_cpus" ||
			die "cannot tie $at to a processor"
	done
}

# masquerade plain|random [LOW HIGH] [iptables|nft]
masquerade() {
	local ports=${2:-$LOW}-${3:-$HIGH} flag='' ipt family

	if [ "${4:-iptables}" = nft ]; then
		[ "$1" = plain ] || flag=fully-random
		for family in ip ip6; do
			printf 'table %s tsn_nat\ndelete table %s tsn_nat\ntable %s tsn_nat {\n' \
				$family $family $family
			printf 'chain post { type nat hook postrouting priority srcnat; '
			printf 'oifname "out" meta l4proto tcp masquerade to :%s %s; }\n}\n' \
				"$ports" "$flag"
		done | on gw nft -f - || die "nft refuses the masquerade rule"
		return
	fi
	[ "$1" = plain ] || flag=--random-fully
	for ipt in iptables-nft ip6tables-nft; do
		on gw $ipt -t nat -F POSTROUTING
		on gw $ipt -t nat -A POSTROUTING -o out -p tcp -j MASQUERADE --to-ports "$ports" \
			$flag ||
			die "$ipt refuses the masquerade rule"
	done
}

for part in traffic tsnatd connection; do
	. "$here/lib-$part.sh"
done
