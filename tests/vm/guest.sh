#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# guest.sh - the daemon on the kernel that is running. Root's first and only program in a guest: see kvmtest.sh.
#
#   client1                 gateway                              server
#   +------+       +------------------------+         +-------------------------+
#   | eth0 +-------+ in1                    |         |                         |
#   +------+       |  masquerade, few ports |         |                         |
#    10.77.1.2     |                    out +---------+ eth0        peer serve  |
#    fd77:1::2     |                 tsnatd |         |                         |
#   +------+       |          198.51.100.1  |         |  198.51.100.2           |
#   | eth0 +-------+ in2    2001:db8:77::1  |         |  2001:db8:77::2         |
#   +------+       +------------------------+         +-------------------------+
#   client2: 10.77.2.2, fd77:2::2
#
# With tcp_timestamps=1, the default, a client adds an offset to its clock, by kernel that of the pair of addresses or that of the
# tuple before NAT. So what shares a port after NAT has unrelated clocks.

SERVER4=198.51.100.2
SERVER6=2001:db8:77::2
PORT=7000
FRESH_PORT=7001 # where the server has no TIME_WAIT yet
PIN_DIR=/sys/fs/bpf/tsnatd
LOG=/tmp/tsnatd.log
TSNATD=tsnatd # and what comes before it

failed=0
tsnatd_pid=
server_pids=
talk_pid=

# ---- results ---------------------------------------------------------------------------------------------

ok() { echo "ok - $*"; }

not_ok() { # TEXT [DIAGNOSTIC]
	failed=1
	echo "not ok - $1"
	{
		[ -z "${2:-}" ] || printf '%s\n' "$2"
		[ -z "$tsnatd_pid" ] || tsnatctl stats 2>&1 | grep -v ' 0$' | tr '\n' ' '
		echo
		tail -n 8 $LOG
	} | sed 's/^/#   /'
}

is() { # TEXT ACTUAL EXPECTED
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "is '$2', expected '$3'"; fi
}

at_least() { # TEXT ACTUAL LIMIT
	if [ "${2:-0}" -ge "$3" ]; then ok "$1 ($2)"; else not_ok "$1" "is '$2', at least $3 expected"; fi
}

at_most() { # TEXT ACTUAL LIMIT
	if [ "${2:-999}" -le "$3" ]; then ok "$1 ($2)"; else not_ok "$1" "is '$2', at most $3 expected"; fi
}

succeeds() { # TEXT COMMAND..., which may set variables
	local text=$1

	shift
	if "$@" >/tmp/output 2>&1; then ok "$text"; else not_ok "$text" "$* -> $(cat /tmp/output)"; fi
}

# ---- processes ---------------------------------------------------------------------------------------------

# Not `ip netns exec`, which mounts a new /sys over the bpffs.
on() { # NAMESPACE COMMAND...
	local ns=$1

	shift
	nsenter --net=/run/netns/"$ns" "$@"
}

wait_for() { # SECONDS COMMAND...: until it succeeds
	local tries=$(($1 * 10))

	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.1
	done
}

# ---- namespaces --------------------------------------------------------------------------------------------

# New ones each time, because a server's TIME_WAITs last for a minute.
topology_up() { # PORTS random|fully-random
	local n

	echo "# at $(cut -d' ' -f1 /proc/uptime) s"
	for n in client1 client2 gateway server; do
		ip netns add $n
	done
	ip -batch - <<-END
		link add out netns gateway type veth peer name eth0 netns server
		link add in1 netns gateway type veth peer name eth0 netns client1
		link add in2 netns gateway type veth peer name eth0 netns client2
	END
	ip -n gateway -batch - <<-END
		addr add 198.51.100.1/24 dev out
		addr add 2001:db8:77::1/64 dev out nodad
		addr add 10.77.1.1/24 dev in1
		addr add fd77:1::1/64 dev in1 nodad
		addr add 10.77.2.1/24 dev in2
		addr add fd77:2::1/64 dev in2 nodad
		link set lo up
		link set out up
		link set in1 up
		link set in2 up
	END
	ip -n server -batch - <<-END
		addr add $SERVER4/24 dev eth0
		addr add $SERVER6/64 dev eth0 nodad
		link set lo up
		link set eth0 up
	END
	for n in 1 2; do
		ip -n client$n -batch - <<-END
			addr add 10.77.$n.2/24 dev eth0
			addr add fd77:$n::2/64 dev eth0 nodad
			link set lo up
			link set eth0 up
			route add default via 10.77.$n.1
			route add default via fd77:$n::1
		END
	done
	on gateway nft -f - <<-END
		table inet nat {
			chain postrouting {
				type nat hook postrouting priority srcnat;
				oifname "out" meta l4proto tcp masquerade to :$1 $2
			}
		}
	END
	# A closed connection's port may be used again at once, also where the NAT itself would wait for that. What comes late for
	# it is no new connection.
	on gateway sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
		net.netfilter.nf_conntrack_tcp_timeout_time_wait=0 \
		net.netfilter.nf_conntrack_tcp_timeout_close=0 net.netfilter.nf_conntrack_tcp_loose=0
	server_pids=
	for n in $PORT $FRESH_PORT; do
		: >/tmp/server.log
		nsenter --net=/run/netns/server peer serve "$n" >/tmp/server.log 2>&1 &
		server_pids="$server_pids $!"
		wait_for 10 grep -q serving /tmp/server.log
	done
}

topology_down() {
	local n

	hang_up
	stop KILL
	kill $server_pids
	wait $server_pids 2>/dev/null
	for n in client1 client2 gateway server; do
		ip netns del $n
	done
	rm -rf /tmp/state $PIN_DIR /run/tsnatd
}

# ---- tsnatd ------------------------------------------------------------------------------------------------

has_ended() { [ ! -e /proc/"$1"/exe ]; }

is_up_or_has_ended() { has_ended "$tsnatd_pid" || tsnatctl status; }

start() { # ARGS: 0 when it is ready
	nsenter --net=/run/netns/gateway $TSNATD -i out --state-dir /tmp/state "$@" >$LOG 2>&1 3>&- &
	tsnatd_pid=$!
	wait_for 30 is_up_or_has_ended && ! has_ended $tsnatd_pid
}

stop() { # [SIGNAL]: the exit status is in stopped
	stopped=
	[ -n "$tsnatd_pid" ] || return 0
	kill -"${1:-TERM}" "$tsnatd_pid" 2>/dev/null
	wait "$tsnatd_pid" 2>/dev/null
	stopped=$?
	tsnatd_pid=
}

status_of() { # FIELD
	tsnatctl status | sed -n "s/^$1 //p"
}

stat_of() { # COUNTER
	tsnatctl stats | sed -n "s/^$1 //p"
}

# What most tests want to know first.
kind() { echo "$(status_of datapath) $(status_of rules) $(status_of mapping) $(status_of realtime)"; }

programs() { # how many of ours are attached
	{
		on gateway tc filter show dev out ingress
		on gateway tc filter show dev out egress
	} | grep -c ' tsnat_'
}

tables() { on gateway nft list tables | tr '\n' ' '; }

# ---- connections -------------------------------------------------------------------------------------------

server() { # ipv4|ipv6
	if [ "$1" = ipv6 ]; then echo $SERVER6; else echo $SERVER4; fi
}

# Short connections from both clients by turns, so that each finds ports that the other one used last. Prints how many failed.
mix() { # TURNS COUNT
	local client family

	for _ in $(seq "$1"); do
		for client in client1 client2; do
			for family in ipv4 ipv6; do
				on $client peer connect "$2" "$(server $family)" $PORT
			done
		done
	done | awk '{ failed += $3 } END { print failed }'
}

counter() { # NAMESPACE FILE-BELOW-/proc/net LINE NAME; nothing when the kernel does not have it
	on "$1" awk -v line="$3:" -v name="$4" '
		$1 == line && !n { n = split($0, names); next }
		$1 == line { for (i = 2; i <= n; i++) if (names[i] == name) print $i }' /proc/net/"$2"
}

# SYNs that the server refused. Kernels before 6.14 do not count them apart from other segments with an old timestamp, but each
# one is sent again.
refused() {
	local n

	n=$(counter server netstat TcpExt PAWSTimewait)
	[ -n "$n" ] || n=$(($(counter client1 netstat TcpExt TCPSynRetrans) + $(counter client2 netstat TcpExt TCPSynRetrans)))
	echo "$n"
}

# Segments of established connections, and on kernels as above of closed ones.
discarded() { counter server netstat TcpExt PAWSEstab; }

# One connection that stays open; say() sends lines on it.
open() { # CLIENT ipv4|ipv6
	rm -f /tmp/talk /tmp/talk.log
	mkfifo /tmp/talk
	exec 3<>/tmp/talk
	nsenter --net=/run/netns/"$1" peer talk "$(server "$2")" $PORT </tmp/talk >/tmp/talk.log 2>&1 3>&- &
	talk_pid=$!
	wait_for 20 grep -q connected /tmp/talk.log
}

heard() { # LINE: it came back from the server
	wait_for 20 grep -qx "$1" /tmp/talk.log
}

say() { # LINE
	echo "$1" >&3
	heard "$1"
}

hang_up() {
	[ -n "$talk_pid" ] || return 0
	exec 3>&-
	wait "$talk_pid"
	talk_pid=
}

# The shift of the only connection that is open.
shift_of_it() { tsnatctl connections | cut -d' ' -f4; }

# ---- tests -------------------------------------------------------------------------------------------------

mapping() { # FAMILY INSIDE-ADDRESS
	local expected

	succeeds "$1: a connection opens" open client2 "$1"
	expected="\"inside_address\":\"$2\",\"inside_port\":$(sed -n 's/.*from port //p' /tmp/talk.log)"
	is "$1: its inside tuple is known at once, without conntrack's events" \
		"$(tsnatctl connections --json | grep -o "$expected")" "$expected"
	hang_up
}

# A life from start to cleanup.
life() {
	local family

	topology_up 40000-40999 random
	echo 'conntrack_events = false;' >/tmp/tsnatd.conf
	succeeds "starts" start -c /tmp/tsnatd.conf
	is "status: datapath bpf, so the verifier accepts the programs; rules queue; mapping packet; realtime" \
		"$(kind)" "bpf queue packet yes"
	is "status: no problem" "$(status_of problem)" ""
	is "a program at each hook" "$(programs)" 2
	for family in ip ip6; do
		is "table $family tsnatd has a queue expression, with a queue for each of the two processors" \
			"$(on gateway nft list table $family tsnatd | grep -c 'queue flags bypass,fanout to [0-9]*-[0-9]*$')" 1
	done
	mapping ipv4 10.77.2.2
	mapping ipv6 fd77:2::2
	at_least "the SYNs were queued" "$(stat_of verdicts)" 2
	stop
	is "SIGTERM: exit status 0" "$stopped" 0
	is "SIGTERM: no rule is left, except other people's" "$(tables)" "table inet nat "
	is "SIGTERM: the programs stay for connections that live" "$(programs)" 2
	succeeds "--cleanup: succeeds" on gateway tsnatd -i out --cleanup
	is "--cleanup: no program is left" "$(programs)" 0
	is "--cleanup: no qdisc is left" "$(on gateway tc qdisc show dev out | grep -c clsact)" 0
	is "--cleanup: no pin is left" "$(find /sys/fs/bpf -mindepth 1)" ""
	is "--cleanup: no rule is left, except other people's" "$(tables)" "table inet nat "
	topology_down
}

# Without tsnatd. Else the rest would prove nothing.
need() {
	topology_up 40000-40019 fully-random
	mix 1 20 >/dev/null
	at_least "without tsnatd: of 80 SYNs the server refuses" "$(refused)" 10
	topology_down
}

policy_is() { [ "$(status_of policy)" = "$1" ]; }

set_policy() { # repair|unify, by a reload
	echo "policy = \"$1\";" >/tmp/tsnatd.conf
	kill -HUP "$tsnatd_pid"
	wait_for 10 policy_is "$1"
}

reuse() { # WHAT POLICY
	local what="$1, $2" refused_before shifted_before

	succeeds "$what: a reload sets the policy" set_policy "$2"
	refused_before=$(refused)
	shifted_before=$(stat_of syn_shifted)
	is "$what: all connections succeed" "$(mix 3 20)" 0
	# on a busy machine a port may be used again before the server saw the last one's FIN: whatever the clock then, it refuses
	at_most "$what: of 240 SYNs the server refuses" $(($(refused) - refused_before)) 3
	at_least "$what: SYNs shifted" $(($(stat_of syn_shifted) - shifted_before)) 20
}

# Open a connection that needs a shift, as every second one does.
open_shifted() { # FAMILY
	local client

	for _ in 1 2 3 4 5 6 7 8; do
		for client in client1 client2; do
			open $client "$1" || return
			case $(shift_of_it) in
			0 | '') hang_up ;;
			*) return 0 ;;
			esac
		done
	done
	return 1
}

# The connection while tsnatd is down, and after it came back. Programs go on in the kernel; without them segments wait.
outage() { # WHAT SIGNAL FAMILY ARGS
	local what="$1, SIG$2" signal=$2 family=$3 before

	shift 3
	before=$(discarded)
	stop "$signal"
	case $* in
	*'--datapath queue'*) echo "down $signal" >&3 ;;
	*)
		succeeds "$what: data flows while it is down" say "down $signal"
		is "$what: the server discarded nothing so far (PAWSEstab)" "$(discarded)" "$before"
		is "$what: others can connect while it is down" \
			"$(on client1 peer connect 1 "$(server "$family")" $FRESH_PORT)" "1 done 0 failed"
		is "$what: one program at each hook" "$(programs)" 2
		before=$(discarded)
		;;
	esac
	succeeds "$what: starts again" start "$@"
	succeeds "$what: what was sent meanwhile arrives" heard "down $signal"
	succeeds "$what: data flows afterwards" say "up $signal"
	is "$what: the shift is the same" "$(shift_of_it)" "$shift_before"
	is "$what: the server discarded nothing (PAWSEstab)" "$(discarded)" "$before"
}

# Reused ports with one policy and the other, then a connection that lives through two outages.
job() { # FAMILY random|fully-random "POLICIES" ARGS
	local family=$1 ports=$2 policies=$3 policy shift_before what

	shift 3
	what="$*"
	topology_up 40000-40019 "$ports"
	: >/tmp/tsnatd.conf
	succeeds "$what: starts" start -c /tmp/tsnatd.conf "$@"
	for policy in $policies; do
		reuse "$what" "$policy"
	done
	what="$what, $policy"
	succeeds "$what: a shifted connection opens" open_shifted "$family"
	shift_before=$(shift_of_it)
	succeeds "$what: data flows" say before
	outage "$what" TERM "$family" -c /tmp/tsnatd.conf "$@"
	outage "$what" KILL "$family" -c /tmp/tsnatd.conf "$@"
	topology_down
}

# The wall clock steps while it runs, and a machine without a battery begins in 1970: what was saved is as old as it is.
wall_clock() { # POLICY
	local what="$1, wall clock"

	topology_up 40000-40019 random
	succeeds "$what: starts" start --policy "$1"
	is "$what: all connections succeed" "$(mix 2 20)" 0
	succeeds "$what: steps to 1970" date -s @86400
	is "$what: in 1970: all connections succeed" "$(mix 1 20)" 0
	stop
	succeeds "$what: then, as after a reboot, the state file is all there is" on gateway tsnatd -i out --state-dir /tmp/state --cleanup
	succeeds "$what: and it is 2033" date -s @2000000000
	succeeds "$what: starts again" start --policy "$1"
	at_least "$what: records restored" "$(sed -n 's/.*restored \([0-9]*\) records.*/\1/p' $LOG)" 30
	is "$what: in 2033: all connections succeed" "$(mix 2 20)" 0
	at_most "$what: of 400 SYNs the server refuses" "$(refused)" 5
	at_least "$what: SYNs shifted since" "$(stat_of syn_shifted)" 20
	topology_down
}

# As under a service manager: root makes the directories, the daemon has a user of its own.
plain_user() {
	local caps=+net_admin,+bpf,+perfmon,+sys_nice

	topology_up 40000-40019 random
	mkdir $PIN_DIR /run/tsnatd /tmp/state
	chown 1000:1000 $PIN_DIR /run/tsnatd /tmp/state
	chmod 711 /sys/fs/bpf
	TSNATD="setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs --bounding-set -all,$caps
		--inh-caps -all,$caps --ambient-caps -all,$caps tsnatd"
	succeeds "plain user with four capabilities: starts" start
	is "plain user: it is one" "$(awk '/^Uid:/ { print $2, $3 }' /proc/$tsnatd_pid/status)" "1000 1000"
	is "plain user: datapath bpf, rules queue, mapping packet, realtime" "$(kind)" "bpf queue packet yes"
	is "plain user: status: no problem" "$(status_of problem)" ""
	is "plain user: all connections succeed" "$(mix 2 20)" 0
	at_most "plain user: of 160 SYNs the server refuses" "$(refused)" 3
	at_least "plain user: SYNs shifted" "$(stat_of syn_shifted)" 10
	stop
	is "plain user: SIGTERM: exit status 0" "$stopped" 0
	is "plain user: SIGTERM: no rule is left, except other people's" "$(tables)" "table inet nat "
	succeeds "plain user: starts over what it left" start
	is "plain user: one program at each hook" "$(programs)" 2
	TSNATD=tsnatd
	topology_down
}

: >$LOG
life
need
job ipv4 fully-random "unify repair" --decide queue
job ipv6 random "repair unify" --decide kernel
job ipv4 random "repair unify" --datapath queue
plain_user
wall_clock repair
wall_clock unify
is "the kernel has nothing to complain about" "$(dmesg | grep -E 'BUG|WARNING|Oops|refcount|stall')" ""
exit $failed
