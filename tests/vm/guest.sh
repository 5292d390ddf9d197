#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# guest.sh - tests of the daemon on the guest's kernel. It is the only script that runs in a guest: see kvmtest.sh.

. /guest-lib.sh

mapping() { # FAMILY INSIDE-ADDRESS
	local expected

	succeeds "$1: a connection opens" open client2 "$1"
	expected="\"inside_address\":\"$2\",\"inside_port\":$(sed -n 's/.*from port //p' /tmp/talk.log)"
	is "$1: its inside tuple is known at once, without conntrack's events" \
		"$(tsnatctl connections --json | grep -o "$expected")" "$expected"
	hang_up
}

# From start to cleanup.
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
	is "SIGTERM: the programs stay for open connections" "$(programs)" 2
	succeeds "--cleanup: succeeds" on gateway tsnatd -i out --cleanup
	is "--cleanup: no program is left" "$(programs)" 0
	is "--cleanup: no qdisc is left" "$(on gateway tc qdisc show dev out | grep -c clsact)" 0
	is "--cleanup: no pin is left" "$(find /sys/fs/bpf -mindepth 1)" ""
	is "--cleanup: no rule is left, except other people's" "$(tables)" "table inet nat "
	topology_down
}

# Without tsnatd the server refuses SYNs. Else the tests below would prove nothing.
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
	# On a busy machine a port may be used again before the server got the former connection's FIN. It refuses that SYN
	# whatever its timestamp.
	at_most "$what: of 240 SYNs the server refuses" $(($(refused) - refused_before)) 3
	at_least "$what: SYNs shifted" $(($(stat_of syn_shifted) - shifted_before)) 20
}

# The open connection while tsnatd is down, and after it was started again. BPF programs go on in the kernel; with the queue datapath
# segments wait.
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

# Reused ports with each policy, then a connection that stays open over two outages.
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

# The wall clock steps while tsnatd runs, and again before the next start, as on a machine without a battery. The age of saved records
# must not depend on it.
wall_clock() { # POLICY
	local what="$1, wall clock"

	topology_up 40000-40019 random
	succeeds "$what: starts" start --policy "$1"
	is "$what: all connections succeed" "$(mix 2 20)" 0
	succeeds "$what: steps to 1970" date -s @86400
	is "$what: in 1970: all connections succeed" "$(mix 1 20)" 0
	stop
	succeeds "$what: --cleanup, so that as after a reboot only the state file is left" on gateway tsnatd -i out --state-dir /tmp/state --cleanup
	succeeds "$what: and it is 2033" date -s @2000000000
	succeeds "$what: starts again" start --policy "$1"
	at_least "$what: records restored" "$(sed -n 's/.*restored \([0-9]*\) records.*/\1/p' $LOG)" 30
	is "$what: in 2033: all connections succeed" "$(mix 2 20)" 0
	at_most "$what: of 400 SYNs the server refuses" "$(refused)" 5
	at_least "$what: SYNs shifted since" "$(stat_of syn_shifted)" 20
	topology_down
}

# As under a service manager: root makes the directories, and the daemon runs as another user.
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
	succeeds "plain user: starts again with the programs that stayed" start
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
is "the kernel logged no warning" "$(dmesg | grep -E 'BUG|WARNING|Oops|refcount|stall')" ""
exit $failed
