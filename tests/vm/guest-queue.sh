#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# guest-queue.sh - tests with features that a development kernel may lack: the queue expression, which the shipped nft rules for the
# datapath without BPF use; flowtables; VLAN devices, with both datapaths. It is the only script that runs in a guest: see kvmtest.sh.

. /guest-lib.sh

# Connections on reused ports succeed, and SYNs are shifted.
repaired() { # WHAT
	local refused_before

	refused_before=$(refused)
	is "$1: all connections succeed" "$(mix 2 20)" 0
	at_most "$1: of 160 SYNs the server refuses" $(($(refused) - refused_before)) 3
	at_least "$1: SYNs shifted" "$(stat_of syn_shifted)" 10
}

undisturbed() { # WHAT BEFORE
	is "$1: the server discarded nothing (PAWSEstab)" "$(discarded)" "$2"
}

# The shipped file, with another interface name.
shipped_rules() {
	local what="conf/tsnatd-queue.nft" before

	topology_up 40000-40019 fully-random
	sed 's/"eth0"/"out"/' /tsnatd-queue.nft >/tmp/rules.nft
	succeeds "$what: loads" on gateway nft -f /tmp/rules.nft
	succeeds "$what: loads again" on gateway nft -f /tmp/rules.nft
	is "$what: with one rule of each kind and family" "$(on gateway nft list ruleset | grep -c 'queue .*to 515')" 12
	succeeds "$what: tsnatd starts" start --rules none --datapath queue
	repaired "$what"
	succeeds "$what: a shifted connection opens" open_shifted ipv4
	before=$(discarded)
	succeeds "$what: data flows" say one
	stop KILL
	echo two >&3
	succeeds "$what: starts again after SIGKILL" start --rules none --datapath queue
	succeeds "$what: what was sent meanwhile arrives" heard two
	undisturbed "$what" "$before"
	topology_down
}

offloaded() { on gateway grep -c 'OFFLOAD' /proc/net/nf_conntrack; }
is_offloaded() { [ "$(offloaded)" -ge 1 ]; }

# By the documented rule marked connections stay out of the flowtable. Others get into it.
flowtable() {
	local what="flowtable, the datapath without BPF" before n

	topology_up 40000-40019 random
	on gateway nft -f - <<-END || not_ok "$what: nft takes it"
		table inet fast {
			flowtable f { hook ingress priority 0; devices = { out, in1, in2 }; }
			chain forward { type filter hook forward priority 0;
				ct state established ct mark & 0x20000 == 0 meta l4proto tcp flow add @f; }
		}
	END
	succeeds "$what: starts" start --datapath queue
	repaired "$what"
	succeeds "$what: a shifted connection opens" open_shifted ipv4
	before=$(discarded)
	for n in 1 2 3 4 5; do
		succeeds "$what: data flows ($n)" say "line $n"
	done
	is "$what: and is in no flowtable" "$(offloaded)" 0
	undisturbed "$what" "$before"
	hang_up
	succeeds "$what: an unshifted connection opens" open_unshifted
	succeeds "$what: and is in the flowtable" wait_for_offload
	hang_up
	topology_down
}

# Open a connection that gets no shift.
open_unshifted() {
	for _ in 1 2 3 4 5 6 7 8; do
		for client in client1 client2; do
			open $client ipv4 || return
			[ "$(shift_of_it)" != 0 ] || return 0
			hang_up
		done
	done
	return 1
}

wait_for_offload() {
	for n in 1 2 3 4 5 6 7 8 9 10; do
		say "unshifted $n" || return
		! is_offloaded || return 0
	done
	return 1
}

vlan() { # ARGS
	local what="VLAN device, $*" before

	topology_up 40000-40019 random
	move_to_vlan gateway out 198.51.100.1/24 2001:db8:77::1/64
	move_to_vlan server eth0 $SERVER4/24 $SERVER6/64
	on gateway nft flush chain inet nat postrouting
	on gateway nft add rule inet nat postrouting oifname out.7 meta l4proto tcp masquerade to :40000-40019 random
	INTERFACE=out.7
	succeeds "$what: starts" start "$@"
	repaired "$what"
	succeeds "$what: a shifted connection opens" open_shifted ipv6
	before=$(discarded)
	succeeds "$what: data flows" say vlan
	undisturbed "$what" "$before"
	topology_down
	INTERFACE=out
}

move_to_vlan() { # NAMESPACE DEVICE ADDR4 ADDR6
	ip -n "$1" addr flush dev "$2" scope global
	ip -n "$1" link add link "$2" name "$2.7" type vlan id 7 || not_ok "no VLAN device"
	ip -n "$1" addr add "$3" dev "$2.7"
	ip -n "$1" addr add "$4" dev "$2.7" nodad
	ip -n "$1" link set "$2.7" up
}

: >$LOG
shipped_rules
flowtable
vlan --datapath queue
vlan --datapath bpf --decide queue
vlan --datapath bpf --decide kernel
is "the kernel logged no warning" "$(dmesg | grep -E 'BUG|WARNING|Oops|refcount|stall')" ""
exit $failed
