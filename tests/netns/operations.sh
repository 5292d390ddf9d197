#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# operations.sh - an administrator at work on a gateway with tsnatd: flushes rules, deletes filters,
# unplugs, renames and replaces interfaces, reloads with good and bad files. Connections go on being
# repaired, and status names each problem as long as there is one.

. "$(dirname "$0")/lib.sh"

PORTS=500 # so that each is reused many times
HIGH=$((LOW + PORTS - 1))
CONF=

setup() {
	topology_up 1
	start_nginx
	start_peer
	masquerade plain
	: >"$LOG"
}

status_says() { # WORDS: the beginning of a line
	ctl status | grep -q "^$1"
}

healthy() {
	! ctl status | grep -v 'no real-time priority' | grep -q '^problem' &&
		status_says 'link out attached'
}

tells() { # TEXT WORDS
	succeeds "$1: status tells" wait_for 20 status_says "$2"
	note "$1: $(ctl status | grep '^problem' | tail -n 1)"
}

# repairs TEXT PORT: a SYN that the server would refuse
repairs() {
	arm ipv4 c1 "$2"
	mark
	succeeds "$1: a connection from a port in TIME_WAIT" talk ipv4 c1 "$2"
	is "$1: not refused, PAWSEstab, PAWSActive" \
		"$(refused) $(since srv TcpExtPAWSEstab) $(since c1 TcpExtPAWSActive)" '0 0 0'
}

# A thousand connections per second at most, so that tsnatd has processors left. Every port is in
# use again and again.
traffic_begins() {
	use_every_port ipv4 c1
	"$@"
	capture srv eth0 "$TMP/server.pcap"
	CAPTURE=$SPAWNED
	mark
	steady_load ipv4 c1 3
	WRK=$SPAWNED
	wait_for 20 connections_since 200 || die "no traffic: $(cat "$TMP/wrk")"
}

# traffic_ends TEXT: every SYN was above its tuple's floor, none was refused
traffic_ends() {
	wait_for 60 connections_since $((4 * PORTS))
	end "$WRK" INT
	wait_for 3 no_syn_sent c1
	capture_end "$CAPTURE" "$TMP/server.pcap"
	check_capture "$TMP/check.json" "$TMP/server.pcap"
	is "$1: no packet escaped the capture" "$LOST" 0
	at_least "$1: reuses in the capture" "$(json "$TMP/check.json" reuses)" $((2 * PORTS))
	is "$1: every SYN above its tuple's last TSval, no shift changed" \
		"$(json "$TMP/check.json" violations)" 0
	[ "$(json "$TMP/check.json" violations)" = 0 ] || sed 's/^/#   /' "$TMP/check.json"
	server_refuses_none "$1" "$TMP/check.json" 3
}

# ---- the rules -------------------------------------------------------------------------------

rules_are() { # there|gone: in both families
	local family

	for family in ip ip6; do
		if [ "$1" = there ]; then
			on gw nft list chain $family tsnatd postrouting 2>/dev/null |
				grep -q counter || return 1
		else
			! on gw nft list table $family tsnatd 2>/dev/null | grep -q . || return 1
		fi
	done
}

# A firewall's reload as firewalld and nftables.service do it: one transaction flushes everything
# and makes the firewall's own rules again.
firewall_reload() {
	{
		echo 'flush ruleset'
		cat "$TMP/firewall"
	} | on gw nft -f -
}

# Events tell of a flush; without them the daemon would look at its rules every ten seconds. There
# are five flushes, each as soon as the rules are back. With events they take far less than half a
# minute, without more, on however slow a machine.
flushed() { # queue|no-bpf
	local what="$1, rules flushed under traffic" i begin now each=''

	setup
	must_start_tsnatd $(how "$1")
	masquerade plain $LOW $HIGH nft
	on gw iptables-nft -t nat -F POSTROUTING
	talk_half_shifted $LOW
	traffic_begins masquerade random $LOW $HIGH nft
	on gw iptables-nft -t nat -F POSTROUTING
	on gw nft list ruleset 2>/dev/null | sed -n '/^table ip6* tsn_nat/,/^}/p' >"$TMP/firewall"
	begin=$(date +%s%N)
	for i in 1 2 3 4 5; do
		now=$(date +%s%N)
		firewall_reload || die "nft refuses the firewall's rules"
		wait_for 20 rules_are there || break
		each="$each $((($(date +%s%N) - now) / 1000000))"
	done
	at_most "$what: five times they are back, by events: ms in all" \
		$((($(date +%s%N) - begin) / 1000000)) 20000
	note "$what: ms until they were back:$each"
	is "$what: told in the log" "$(grep -c 'rules were gone and are back' "$LOG")" 5
	succeeds "$what: healthy" wait_for 10 healthy
	talk_completes "$what: an open shifted connection goes on" $LOW
	if [ "$1" = no-bpf ]; then # for a moment nobody decided, and nobody learnt
		end "$WRK" INT
		capture_end "$CAPTURE" "$TMP/server.pcap"
	else
		traffic_ends "$what"
	fi
	on gw nft flush ruleset
	succeeds "$what: after a plain flush they come back, too" wait_for 20 rules_are there
	masquerade plain
	repairs "$what: afterwards" 20007
	forget_tsnatd
}

# A foreign table of our table's name, made in the same transaction, keeps the rules from coming
# back.
rules_are_gone() { # queue
	local what='rules replaced by a foreign table of their name'

	setup
	must_start_tsnatd $(how "$1")
	succeeds "$what: healthy before" wait_for 10 healthy
	on gw nft -f - <<-'END' || die "nft takes no foreign table"
		delete table ip tsnatd
		table ip tsnatd { chain postrouting { type filter hook output priority 0; }; }
	END
	tells "$what" 'problem the nft rules are missing'
	succeeds "$what: status tells: rules missing" status_says 'rules missing'
	succeeds "$what: why they do not come back is in the log" \
		wait_for 10 grep -q 'cannot be .*put back' "$LOG"
	arm ipv4 c1 20001
	mark
	talk ipv4 c1 20001 >/dev/null
	is "$what: the egress program repairs by itself: refused" "$(refused)" 0
	on gw nft delete table ip tsnatd
	succeeds "$what: they are back when it is gone" wait_for 20 rules_are there
	succeeds "$what: and status is content" wait_for 10 healthy
	forget_tsnatd
}

# ---- the programs at tc ----------------------------------------------------------------------

filters_of() { # of ours, at both hooks
	{
		on gw tc filter show dev "$1" egress
		on gw tc filter show dev "$1" ingress
	} | grep -c 'tsnat_'
}

filters_are() { # DEVICE N
	[ "$(filters_of "$1")" = "$2" ]
}

filters_deleted() { # queue|kernel
	local what="$1, filters deleted by somebody" hook

	setup
	must_start_tsnatd $(how "$1")
	talk_half_shifted $LOW
	for hook in egress ingress; do
		on gw tc filter del dev out $hook
		succeeds "$what: all of $hook: back" wait_for 20 filters_are out 2
	done
	on gw tc qdisc del dev out clsact
	succeeds "$what: with their qdisc: back" wait_for 20 filters_are out 2
	succeeds "$what: told in the log" \
		wait_for 5 grep -q 'out: somebody deleted the programs at tc' "$LOG"
	succeeds "$what: healthy" wait_for 10 healthy
	talk_completes "$what: an open shifted connection goes on" $LOW
	repairs "$what: afterwards" 20007
	forget_tsnatd
}

# An ingress qdisc in the place of clsact keeps our programs out.
filters_are_kept_out() { # queue
	local what='filters deleted and kept out'

	setup
	must_start_tsnatd $(how "$1")
	on gw tc qdisc del dev out clsact
	until on gw tc qdisc add dev out ingress 2>/dev/null; do # the daemon may be faster
		on gw tc qdisc del dev out clsact 2>/dev/null
	done
	tells "$what" 'problem out: the programs are not attached'
	succeeds "$what: status tells: not attached" status_says 'link out not attached'
	mark
	talk ipv4 c1 20003 >/dev/null
	is "$what: connections work" "$(since c1 TcpActiveOpens) $(since c1 TcpEstabResets)" '1 0'
	on gw tc qdisc del dev out ingress
	succeeds "$what: back when they may" wait_for 20 filters_are out 2
	succeeds "$what: and status is content" wait_for 10 healthy
	repairs "$what: afterwards" 20007
	forget_tsnatd
}

# A classic BPF program of one instruction, which accepts: no later filter sees the packet.
OK_TO_ALL='1,6 0 0 0'

egress_is_blind() { # queue
	local what='a foreign program ends the chain before ours' wrk

	setup
	must_start_tsnatd $(how "$1")
	on gw tc filter add dev out egress protocol all pref 5 bpf direct-action bytecode \
		"$OK_TO_ALL" || die "tc takes no filter"
	steady_load ipv4 c1 20
	wrk=$SPAWNED
	tells "$what" 'problem the egress program sees no SYN leave although SYNs are queued'
	succeeds "$what: told in the log" \
		grep -q 'the egress program sees none of them leave' "$LOG"
	on gw tc filter del dev out egress pref 5
	succeeds "$what: status is content when it is gone" wait_for 20 healthy
	end "$wrk" INT
	masquerade plain
	repairs "$what: afterwards" 20007
	forget_tsnatd
}

# ---- interfaces ------------------------------------------------------------------------------

rewire() {
	wire gw out 198.51.100.1/24 2001:db8:77::1/64 srv eth0 $SERVER4/24 $SERVER6/64
}

# first_connection TEXT: a connection that begins while the interface is being attached is shifted
# whole or not at all
first_connection() {
	mark
	succeeds "$1: the first connection, at once" talk ipv4 c1 20005 --bytes 100000
	is "$1: shifted whole or not at all: PAWSEstab, PAWSActive" \
		"$(since srv TcpExtPAWSEstab) $(since c1 TcpExtPAWSActive)" '0 0'
	succeeds "$1: attached" wait_for 20 status_says 'link out attached'
	succeeds "$1: healthy" wait_for 10 healthy
}

unplugged() { # queue|kernel|no-bpf
	local what="$1, interface"

	setup
	must_start_tsnatd $(how "$1")
	talk_half_shifted $LOW
	ip -n $RUN-gw link set out down
	ip -n $RUN-gw link set out up
	wait_for 10 links_up
	# masquerading has forgotten the connection by now, and its mark
	talk_completes "$what down and up: an open shifted connection goes on" $LOW
	repairs "$what down and up" 20001

	ip -n $RUN-gw link set out down
	ip -n $RUN-gw link set out name other
	tells "$what renamed" 'problem out: there is no such interface now'
	ip -n $RUN-gw link set other name out
	ip -n $RUN-gw link set out up
	wait_for 10 links_up
	first_connection "$what renamed back"
	repairs "$what renamed back" 20002

	ip -n $RUN-gw link del out
	tells "$what deleted" 'problem out: there is no such interface now'
	rewire
	wait_for 10 links_up
	first_connection "$what created again"
	repairs "$what created again" 20003

	ip -n $RUN-gw link del out
	rewire # before the daemon has looked: one burst of events
	wait_for 10 links_up
	first_connection "$what deleted and created at once"
	repairs "$what deleted and created at once" 20004
	forget_tsnatd
}

appears_later() { # queue|kernel|no-bpf
	local what="$1, interface appears after the start"

	setup
	ip -n $RUN-gw link del out
	must_start_tsnatd $(how "$1")
	tells "$what" 'problem out: there is no such interface now'
	rewire
	wait_for 10 links_up
	first_connection "$what"
	repairs "$what" 20001
	forget_tsnatd
}

# ---- reload ----------------------------------------------------------------------------------

hold_is() { # SECONDS
	status_says "hold_s $1\$"
}

chains() { # with their handles, which a chain that was deleted and made again would not keep
	on gw nft -a list ruleset 2>/dev/null | sed -n 's/ *chain \(.*\) {.*# handle/\1/p'
}

reloads() { # queue|kernel|no-bpf
	local what="$1, reload under traffic" before i pid

	setup
	CONF=$TMP/conf
	echo 'hold = 300;' >"$CONF"
	must_start_tsnatd -c "$CONF" $(how "$1")
	pid=$TSNATD_PID
	talk_half_shifted $LOW
	traffic_begins masquerade random
	before=$(chains)
	for i in 1 2 3 4 5; do
		printf 'hold = %d;\npolicy = "unify";\nlog_level = "debug";\n' $((300 + i)) >"$CONF"
		succeeds "$what: tsnatctl reload" ctl reload
		succeeds "$what: what was changed is in force" hold_is $((300 + i))
		printf 'hold = %d;\n' $((200 + i)) >"$CONF"
		kill -HUP "$pid"
		kill -HUP "$pid"
		succeeds "$what: SIGHUP, twice at once" wait_for 20 hold_is $((200 + i))
	done
	printf 'hold = 100;\nrecords = 1000;\nqueue_num = 7;\n' >"$CONF"
	is "$what: options that need a restart are named" \
		"$(ctl reload --json)" '{"needs_restart":["queue_num","records"]}'
	printf 'hold = "x";\npolicy = "mend";\n' >"$CONF"
	is "$what: a bad file: all that is wrong is told, and the exit status" \
		"$(ctl reload 2>&1 | sed "s|$CONF|FILE|"; echo "${PIPESTATUS[0]}")" \
		"$(ctl check "$CONF" 2>&1 | sed "s|$CONF|FILE|")
tsnatctl: the configuration is not valid; the old one stays
2"
	kill -HUP "$pid"
	succeeds "$what: a bad file by SIGHUP: told in the log" \
		wait_for 20 eval \
		'[ "$(grep -c "the configuration is not valid; the old one stays" "$LOG")" -ge 2 ]'
	succeeds "$what: a bad file: the old configuration stays" hold_is 100
	is "$what: every base chain is the same" "$(chains)" "$before"
	is "$what: the same process" "$TSNATD_PID $(kill -0 "$pid" && echo lives)" "$pid lives"
	is "$what: SYNs dropped with a chain: verdicts too late" "$(stat_of verdicts_late)" 0
	talk_completes "$what: an open shifted connection goes on" $LOW
	traffic_ends "$what"
	at_most "$what: SYNs sent again" "$(since c1 TcpExtTCPSynRetrans)" 5
	forget_tsnatd
}

need_daemon
begin
try flushed queue
try flushed no-bpf
try rules_are_gone queue
try filters_deleted queue
try filters_deleted kernel
try filters_are_kept_out queue
try egress_is_blind queue
for decide in queue kernel no-bpf; do
	try unplugged $decide
	try appears_later $decide
	try reloads $decide
done
finish
