#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# queue-datapath.sh - the datapath without BPF: a repaired connection survives the death of the
# daemon, other people's marks stay, and `auto` chooses this datapath where there is no BPF.
#
# While the daemon is dead, segments of shifted connections are dropped, never let through without
# their shift; TCP sends them again.

. "$(dirname "$0")/lib.sh"

GB=1000000000 # so much that the daemon can be killed on the way
FOREIGN_CT=0x40000004 # bits that belong to others
FOREIGN_PACKET=0x10010

setup() {
	topology_up 1
	keep_order c1:eth0 srv:eth0 gw:in1 gw:out
	start_peer
	masquerade plain
}

start() { # ARGS
	must_start_tsnatd --datapath queue "$@"
}

# Every packet of a whole connection that survives SIGKILL half way, compared on both sides.
every_packet() { # FAMILY
	local what="$1: 2 MB both ways, SIGKILL half way"

	setup
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	arm "$1" c1 20000
	mark
	talk "$1" c1 20000 >/dev/null
	at_least "$1: without tsnatd the server refuses the SYN" "$(refused)" 1
	start
	arm "$1" c1 20001
	mark
	both_captures
	talk_half "$1" c1 20001 2000000
	is "$what: connections_shifted is 1" "$(stat_of connections_shifted)" 1
	stop_tsnatd KILL
	talk_goes_on 20001
	sleep 0.5
	start
	talk_ends "$what: all arrives" 20001 2000000
	both_captures_end
	is_undisturbed "$what"
	is_shifted_whole "$what"
	at_least "$what: segments compared" "$(json "$COMPARED" compared)" 2000
	is "$what: and over" "$(stat_of connections_shifted)" 0
	forget_tsnatd
	fails "$what: nothing is left after --cleanup" test -e "$RUNTIME_DIR/records.map"
}

# Checksums left to the hardware, segments merged and cut by the kernel; killed and stopped while
# data flows.
large() { # FAMILY
	local what="$1: 1 GB both ways, SIGKILL and SIGTERM on the way"

	setup
	start
	arm "$1" c1 20001
	mark
	talk_begins "$1" c1 20001 --bytes $GB --pause "$TMP/go.20001"
	wait_for 3 eval '[ "$(stat_of segments_shifted_out)" -gt 100 ]'
	stop_tsnatd KILL
	fails "$what: killed while data flows" grep -q '^received' "$TMP/talk.20001"
	sleep 0.3
	start
	talk_is_half 20001 90
	stop_tsnatd
	talk_goes_on 20001
	sleep 0.3
	is "$what: after SIGTERM no new SYN is queued" \
		"$(on gw nft list chain ip tsnatd postrouting 2>/dev/null | grep -c queue)" 0
	is "$what: but segments of live connections are, for the next start" \
		"$(on gw nft list table ip tsnatd 2>/dev/null | grep -c 'ct mark.*queue')" 2
	start
	talk_ends "$what: all arrives, intact" 20001 $GB
	# no segment passed in the gaps: one that is queued while nobody is there is dropped
	is_undisturbed "$what"
	# merged ones, of up to 64 KiB
	at_least "$what: segments were shifted out" "$(stat_of segments_shifted_out)" 10000
	at_least "$what: and in" "$(stat_of segments_shifted_in)" 10000
	note "$what: PAWSEstab of the server $(since srv TcpExtPAWSEstab)," \
		"dropped for want of room $(stat_of segments_dropped)"
	stop_tsnatd
	is "$what: stopped without live connections, its rules are gone" \
		"$(on gw nft list tables | grep -c tsnatd)" 0
	forget_tsnatd
}

# Marks of others, set before and looked at behind ours.
marks() { # FAMILY
	local what="$1, foreign marks" seen=$TMP/conntrack

	setup
	on gw nft -f - <<-END
		table inet foreign {
			chain before { type filter hook forward priority 0;
				meta l4proto tcp ct mark set ct mark | $FOREIGN_CT \
					meta mark set $FOREIGN_PACKET; }
			chain behind { type filter hook postrouting priority 300;
				oifname "out" meta l4proto tcp \
					meta mark != $FOREIGN_PACKET counter comment "changed"
				oifname "out" meta l4proto tcp \
					meta mark $FOREIGN_PACKET counter comment "kept"; }
		}
	END
	start
	arm "$1" c1 20001
	mark
	talk "$1" c1 20001 --bytes 100000 >/dev/null
	on gw conntrack -L -f "$1" 2>/dev/null | grep 'dport=20001' >"$seen"
	is "$what: the connection was shifted" "$(stat_of syn_shifted)" 1
	is "$what: in ct mark ours is added, theirs stay" \
		"$(sed -n 's/.* mark=\([0-9]*\).*/\1/p' "$seen" | tail -n 1)" \
		$((FOREIGN_CT | 0x20000))
	is "$what: the packet mark behind our rules is what it was" \
		"$(on gw nft list table inet foreign | grep -c 'packets 0 .*changed')" 1
	at_least "$what: of the packets that passed" \
		"$(on gw nft list table inet foreign |
			sed -n 's/.*packets \([0-9]*\) .*kept.*/\1/p')" 20
	is_undisturbed "$what"
	forget_tsnatd
}

# A mask of the administrator's.
mask() {
	setup
	printf 'mark_mask = 0x800000;\ndatapath = "queue";\n' >"$TMP/tsnatd.conf"
	must_start_tsnatd -c "$TMP/tsnatd.conf"
	arm ipv4 c1 20001
	talk ipv4 c1 20001 >/dev/null
	is "mark_mask: the bits that are set" \
		"$(on gw conntrack -L 2>/dev/null | grep 'dport=20001' |
			sed -n 's/.* mark=\([0-9]*\).*/\1/p' | tail -n 1)" $((0x800000))
	forget_tsnatd
}

# $TMP/no-bpf: tsnatd with neither CAP_BPF nor CAP_SYS_ADMIN
without_bpf() {
	command -v setpriv >/dev/null || die "missing: setpriv"
	printf '#!/bin/sh\nexec setpriv --bounding-set %s --inh-caps %s %s "$@"\n' \
		-bpf,-sys_admin -bpf,-sys_admin "$TSNATD" >"$TMP/no-bpf"
	chmod +x "$TMP/no-bpf"
}

# Without daemon new connections go by unrepaired, and one that is open and shifted waits.
gone() { # TERM|KILL|STOP
	local what="SIG$1"

	HIGH=$((LOW + 999))
	setup
	start_nginx
	start
	use_every_port ipv4 c1
	arm ipv4 c1 $LOW
	talk_half ipv4 c1 $LOW
	is "$what: one connection is open and shifted" "$(stat_of connections_shifted)" 1
	timestamps 1 c1
	if [ "$1" = STOP ]; then
		kill -STOP "$TSNATD_PID"
	else
		stop_tsnatd "$1"
	fi
	masquerade random
	mark
	talk_goes_on $LOW
	load ipv4 2 c1
	at_least "$what: new connections work" "$(since srv TcpPassiveOpens)" 100
	at_least "$what: as without tsnatd, some are refused" "$(refused)" 10
	fails "$what: the open connection waits" grep -q '^received 20000' "$TMP/talk.$LOW"
	if [ "$1" = STOP ]; then
		kill -CONT "$TSNATD_PID"
	else
		start
	fi
	talk_ends "$what: and goes on with the daemon" $LOW
	forget_tsnatd
	HIGH=27999
}

# auto, where BPF is not to be had
automatic() {
	local real=$TSNATD

	setup
	: >"$LOG"
	: >"$TMP/no-directory"
	PIN_DIR=$TMP/no-directory/pins must_start_tsnatd
	is "auto, unusable bpffs: comes up on the queue datapath" \
		"$(ctl status --json | grep -c '"datapath": *"queue"')" 1
	is "auto, unusable bpffs: says so in one line" \
		"$(grep -c 'using the datapath queue' "$LOG")" 1
	arm ipv4 c1 20001
	mark
	talk ipv4 c1 20001 >/dev/null
	is "auto, unusable bpffs: and repairs" "$(refused)" 0
	stop_tsnatd
	: >"$LOG"
	without_bpf
	TSNATD=$TMP/no-bpf must_start_tsnatd
	is "auto, without CAP_BPF: comes up on the queue datapath" \
		"$(ctl status --json | grep -c '"datapath": *"queue"')" 1
	is "auto, without CAP_BPF: says so in one line" \
		"$(grep -c 'using the datapath queue' "$LOG")" 1
	arm ipv4 c1 20002
	mark
	talk ipv4 c1 20002 >/dev/null
	is "auto, without CAP_BPF: and repairs" "$(refused)" 0
	TSNATD=$real
	stop_tsnatd
	start_tsnatd --datapath queue --decide kernel
	is "--decide kernel with the queue datapath is a usage error" "$TSNATD_STATUS" 2
}

# filters_at_out: how many of ours
filters_at_out() {
	{
		on gw tc filter show dev out ingress
		on gw tc filter show dev out egress
	} 2>/dev/null | grep -c '\bid [0-9]'
}

# A run with BPF programs was killed. They go on for its live connections; new ones are shifted by
# this datapath alone.
after_bpf() { # FAMILY
	local what="$1: after a bpf run was killed"

	setup
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	must_start_tsnatd --datapath bpf --decide kernel
	arm "$1" c1 20001
	talk_half "$1" c1 20001
	is "$what: it left a shifted connection" "$(stat_of connections_shifted)" 1
	stop_tsnatd KILL
	start
	is "$what: its programs are still there" "$(filters_at_out)" 2
	arm "$1" c1 20002
	mark
	both_captures 'tcp port 20002'
	talk "$1" c1 20002 --bytes 100000 >/dev/null
	both_captures_end
	is_undisturbed "$what: a new connection"
	is_shifted_whole "$what: a new connection"
	is "$what: by this datapath" "$(stat_of syn_shifted)" 1
	talk_goes_on 20001
	talk_ends "$what: the old connection goes on" 20001
	is_undisturbed "$what: the old connection"
	stop_tsnatd KILL
	start
	is "$what: with the last old connection the programs go" "$(filters_at_out)" 0
	forget_tsnatd
}

# The BPF programs of a killed run that cannot be told to pause are taken off.
after_bpf_without_caps() {
	local what="after a bpf run was killed, without CAP_BPF" real=$TSNATD

	setup
	must_start_tsnatd --datapath bpf
	stop_tsnatd KILL
	is "$what: it left its programs" "$(filters_at_out)" 2
	without_bpf
	TSNATD=$TMP/no-bpf must_start_tsnatd
	is "$what: they are taken off" "$(filters_at_out)" 0
	arm ipv4 c1 20001
	mark
	talk ipv4 c1 20001 >/dev/null
	is "$what: SYNs are repaired" "$(refused) $(stat_of syn_shifted)" '0 1'
	TSNATD=$real
	forget_tsnatd
}

need_daemon
begin
after_bpf ipv4
after_bpf ipv6
after_bpf_without_caps
every_packet ipv4
every_packet ipv6
large ipv4
large ipv6
gone TERM
gone KILL
gone STOP
marks ipv4
marks ipv6
mask
automatic
finish
