#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# iptables-legacy.sh - the plain iptables rule: no nf_tables, no BPF, SYNs queued before NAT.
# conf/tsnatd.iptables and .ip6tables as shipped.

. "$(dirname "$0")/lib.sh"

CONNECTIONS=21000
UNIFY=(--rules none --datapath queue --policy unify --scope destination)

tools() { # FAMILY
	if [ "$1" = ipv6 ]; then IPT=ip6tables; else IPT=iptables; fi
}

legacy_masquerade() { # [FLAG]
	on gw $IPT-legacy -t nat -F POSTROUTING
	on gw $IPT-legacy -t nat -A POSTROUTING -o out -p tcp -j MASQUERADE --to-ports $LOW-$HIGH \
		"$@" || die "$IPT-legacy refuses"
}

rules_up() {
	sed 's/ eth0 / out /' "$top/conf/tsnatd.$IPT" >"$TMP/rules"
	succeeds "$FAMILY: the shipped rule file loads" \
		on gw $IPT-legacy-restore --noflush "$TMP/rules"
}

setup() { # FAMILY CLIENTS
	FAMILY=$1
	tools "$1"
	topology_up "$2"
	rules_up
}

connection() { # FAMILY
	local what="$1: 2 MB both ways, SIGKILL half way"

	setup "$1" 1
	start_peer
	legacy_masquerade
	offload_off c1:eth0 srv:eth0 gw:in1 gw:out
	: >"$LOG"
	on gw $IPT-legacy -t mangle -I FORWARD -p tcp -j CONNMARK --set-xmark 0x4/0x4
	must_start_tsnatd "${UNIFY[@]}"
	arm "$1" c1 20001
	mark
	both_captures
	talk_half "$1" c1 20001 2000000
	is "$1: connections_shifted is 1" "$(stat_of connections_shifted)" 1
	is "$1: in ct mark ours is added, theirs stay" \
		"$(on gw conntrack -L -f "$1" 2>/dev/null | grep ESTAB |
			sed -n 's/.* mark=\([0-9]*\).*/\1/p')" $((0x20004))
	stop_tsnatd KILL
	talk_goes_on 20001
	sleep 0.5
	must_start_tsnatd "${UNIFY[@]}"
	talk_ends "$what: all arrives" 20001 2000000
	both_captures_end
	is_undisturbed "$what"
	is_shifted_whole "$what"
	is "$1: it says on which side of NAT it is, once" \
		"$(grep -c 'queued before NAT: records are kept' "$LOG")" 1
	is "$1: no nf_tables" "$(on gw nft list tables)" ""
	forget_tsnatd
}

# Two clients with unrelated clocks, every port used over and over.
reuse() { # FAMILY
	local what="$1: two clients" cap file=$TMP/server.pcap out=$TMP/check.json i stale

	setup "$1" 2
	start_nginx
	legacy_masquerade --random-fully
	must_start_tsnatd "${UNIFY[@]}"
	capture srv eth0 "$file"
	cap=$SPAWNED
	mark
	for i in 1 2 3 4 5 6; do
		load "$1" 2 c1 c2
		[ "$(since srv TcpPassiveOpens)" -lt $CONNECTIONS ] || break
	done
	capture_end "$cap" "$file"
	check_capture "$out" "$file"
	is "$what: no packet escaped the capture" "$LOST" 0
	at_least "$what: reuses in the capture" "$(json "$out" reuses)" 5000
	# as in main-job.sh without BPF: the last segments of a connection wait in another queue
	# than the next one's SYN, which may overtake them
	stale=$(($(json "$out" connections) / 1000))
	at_most "$what: SYNs not above their tuple's last TSval, changed shifts" \
		"$(json "$out" violations)" $stale
	[ "$(json "$out" violations)" -le $stale ] || sed 's/^/#   /' "$out"
	server_refuses_none "$what" "$out" $((5 + stale))
	at_most "$what: PAWSActive" "$(since_all TcpExtPAWSActive srv c1 c2)" 5
	at_most "$what: wrong checksums" "$(since_all TcpInCsumErrors srv c1 c2)" 0
	note "$what: $RATE requests/s, $(since srv TcpPassiveOpens) connections," \
		"insert_failed $(insert_failed), shifted $(stat_of syn_shifted)," \
		"clashes $(stat_of clashes), dropped $(stat_of segments_dropped)"
	forget_tsnatd
}

repair_is_refused() {
	setup ipv4 1
	start_peer
	legacy_masquerade
	: >"$LOG"
	must_start_tsnatd --rules none --datapath queue
	succeeds "repair before NAT: connections pass" talk ipv4 c1 20001
	succeeds "repair before NAT: connections pass" talk ipv4 c1 20002
	is "repair before NAT: refused with the reason, once" \
		"$(grep -c 'policy repair cannot be done there' "$LOG")" 1
	is "repair before NAT: counted" "$(stat_of passed_no_mapping) $(stat_of syn_shifted)" '2 0'
	forget_tsnatd
}

for tool in iptables-legacy ip6tables-legacy; do
	command -v $tool >/dev/null && $tool -t mangle -S >/dev/null 2>&1 || {
		echo "ok - no $tool in this system or kernel # SKIP"
		exit 0
	}
done
need_daemon
begin
connection ipv4
connection ipv6
reuse ipv4
reuse ipv6
repair_is_refused
finish
