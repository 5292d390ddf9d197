# SPDX-License-Identifier: GPL-2.0-or-later
# guest-lib.sh - functions for the scripts that run in a guest, which source it: namespaces, processes, connections, counters.
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
# With tcp_timestamps=1, the default, a client adds an offset to its clock. Depending on the kernel it is a hash of the pair of
# addresses or of the tuple before NAT. So connections that share a port after NAT have unrelated clocks.

SERVER4=198.51.100.2
SERVER6=2001:db8:77::2
PORT=7000
FRESH_PORT=7001 # a port on which the server has no TIME_WAIT yet
PIN_DIR=/sys/fs/bpf/tsnatd
LOG=/tmp/tsnatd.log
TSNATD=tsnatd # the command, with wrappers before it
INTERFACE=out

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

succeeds() { # TEXT COMMAND...; no subshell, so COMMAND may set variables
	local text=$1

	shift
	if "$@" >/tmp/output 2>&1; then ok "$text"; else not_ok "$text" "$* -> $(cat /tmp/output)"; fi
}

# ---- processes ---------------------------------------------------------------------------------------------

# Not `ip netns exec`: it mounts a new /sys, which hides the bpffs.
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
	# A closed connection's port may be used again at once, although conntrack would wait by default. With tcp_loose=0 a late
	# segment of the closed connection makes no new entry.
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
	nsenter --net=/run/netns/gateway $TSNATD -i $INTERFACE --state-dir /tmp/state "$@" >$LOG 2>&1 3>&- &
	tsnatd_pid=$!
	wait_for 30 is_up_or_has_ended && ! has_ended $tsnatd_pid
}

stop() { # [SIGNAL]: puts the exit status into "stopped"
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

# The parts of the status that depend on the kernel.
kind() { echo "$(status_of datapath) $(status_of rules) $(status_of mapping) $(status_of realtime)"; }

programs() { # prints the number of our programs that are attached
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

# Short connections from both clients in turn, so that each gets ports that the other one used last. Prints how many failed.
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

# SYNs that the server refused. Kernels before 6.14 have no counter for them alone, but the client sends each refused SYN again, and
# counts that.
refused() {
	local n

	n=$(counter server netstat TcpExt PAWSTimewait)
	[ -n "$n" ] || n=$(($(counter client1 netstat TcpExt TCPSynRetrans) + $(counter client2 netstat TcpExt TCPSynRetrans)))
	echo "$n"
}

# Segments that the server discarded for their timestamp. Kernels before 6.14 count refused SYNs here, too.
discarded() { counter server netstat TcpExt PAWSEstab; }

# Open a connection that stays open. say() sends lines on it.
open() { # CLIENT ipv4|ipv6
	rm -f /tmp/talk /tmp/talk.log
	mkfifo /tmp/talk
	exec 3<>/tmp/talk
	nsenter --net=/run/netns/"$1" peer talk "$(server "$2")" $PORT </tmp/talk >/tmp/talk.log 2>&1 3>&- &
	talk_pid=$!
	wait_for 20 grep -q connected /tmp/talk.log
}

heard() { # LINE: waits until the server sent it back
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

# The shift of the only open connection.
shift_of_it() { tsnatctl connections | cut -d' ' -f4; }

# Open a connection that gets a shift. About every second one does.
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
