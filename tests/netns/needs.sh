#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# needs.sh - a permission, a kernel feature, a queue or a directory is missing or taken. One line
# names it and says how to help. The exit status is 3, for which the units start tsnatd no more.
# Nothing was changed.

. "$(dirname "$0")/lib.sh"

in_kernel() { # tables, qdiscs, filters and pins that a start leaves
	on gw nft list tables | grep tsnatd
	on gw tc qdisc show | grep -E 'clsact|ingress'
	on gw tc filter show dev out egress
	find "$PIN_DIR" -type f 2>/dev/null
}

# refused TEXT LINE COMMAND...: the command ends with 3 and says just LINE, a regular expression
refused() {
	local what=$1 line=$2 status said

	shift 2
	"$@" >"$TMP/said" 2>&1 </dev/null
	status=$?
	is "$what: exit status" $status 3
	said=$(grep -c . "$TMP/said")
	if [ "$said" = 1 ] && grep -qE "$line" "$TMP/said"; then
		ok "$what: says in one line: $(cut -c-60 "$TMP/said")..."
	else
		not_ok "$what: says one line like '$line'" "$(cat "$TMP/said")"
	fi
	is "$what: nothing in the kernel" "$(in_kernel)" ''
}

tsnatd() { # [WRAPPER... --] ARGS...: as start_tsnatd starts it, in the foreground
	local wrapper=()

	while [ "$1" != -- ]; do
		wrapper+=("$1")
		shift
	done
	shift
	on gw timeout 60 "${wrapper[@]}" "$TSNATD" -i out --runtime-dir "$RUNTIME_DIR" \
		--state-dir "$STATE_DIR" --pin-dir "$PIN_DIR" "$@"
}

taken_queue() { # NUMBER ARGS...
	local number=$1

	shift
	rm -f "$TMP/holder"
	spawn gw "$TMP/holder" "$PYTHON" "$here/hold-queue.py" "$number"
	wait_for 10 grep -q bound "$TMP/holder" ||
		die "cannot bind queue $number: $(cat "$TMP/holder")"
	refused "queue $number taken, $*" \
		"queue $number is taken by another program.*--queue-num" tsnatd -- "$@"
	end "$SPAWNED"
}

without() { # CAPABILITIES, as -net_admin,-bpf
	echo setpriv --bounding-set "$1" --inh-caps "$1"
}

need_daemon
begin
topology_up 1

taken_queue 5150 --decide queue --queues 1
taken_queue 5152 --decide queue --queues 4
taken_queue 5151 --datapath queue --queues 1
taken_queue 700 --queue-num 700

permission='no permission to change netfilter \(CAP_NET_ADMIN\):'
permission+=' start tsnatd as root, or by its systemd unit'
refused 'root without CAP_NET_ADMIN' "$permission" tsnatd $(without -net_admin) --
refused 'root without CAP_NET_ADMIN, no queue' \
	"$permission" tsnatd $(without -net_admin) -- --decide kernel
mkdir "$TMP/user"
chmod 711 "$TMP"
chown nobody "$TMP/user"
refused 'a user without capabilities' \
	"$permission" on gw timeout 60 setpriv --reuid nobody --clear-groups "$TSNATD" -i out \
	--runtime-dir "$TMP/user/run" --state-dir "$TMP/user/state"
is 'a user without capabilities: no directory was made' "$(ls "$TMP/user")" ''
refused 'no BPF, though asked for' \
	'datapath bpf: no permission to load BPF programs \(CAP_BPF and CAP_NET_ADMIN\)' \
	tsnatd $(without -bpf,-sys_admin,-perfmon) -- --datapath bpf
rm -rf "$PIN_DIR"

must_start_tsnatd --queues 1
before=$(in_kernel)
tsnatd -- --queue-num 700 >"$TMP/said" 2>&1 </dev/null
is 'a second one with the same directory: exit status' $? 3
is 'a second one with the same directory: says so' \
	"$(grep -c 'tsnatd is already running (give a second one its own' "$TMP/said")" 1
is 'a second one with the same directory: the first one is undisturbed' "$(in_kernel)" "$before"
succeeds 'a second one with the same directory: the first one answers' ctl status
forget_tsnatd

# somebody else's table of our name
on gw nft 'table ip tsnatd { chain postrouting { type filter hook postrouting priority 5; }; }'
before=$(on gw nft list ruleset)
tsnatd -- --datapath queue >"$TMP/said" 2>&1 </dev/null
is 'a table of that name: exit status' $? 3
said='table tsnatd exists, but differs from ours .*; delete it first'
is 'a table of that name: names it as the one to delete' "$(grep -c "$said" "$TMP/said")" 1
finish
