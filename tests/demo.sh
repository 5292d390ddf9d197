#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# demo.sh - the main job on real traffic: the price of reused ports behind a NAT, without tsnatd
# and with it.
#
# Two clients come first, because a gateway has many. Every row runs in namespaces of its own: the
# server's TIME_WAITs would leak from one row into the next. A row is measured after each external
# port has been used once.
#
# The table goes to stdout, progress to stderr. Exits 1 when connections through tsnatd are still
# refused (more than 0.1 % of them).

. "$(dirname "$0")/netns/lib.sh"

SECONDS_PER_ROW=5
BAR=16
rows=()
worst=0

progress() { printf '%s\n' "$*" >&2; }

# measure CLIENTS plain|random TIMESTAMPS LABEL [ARGS of tsnatd]
measure() {
	local clients=() n sent refusals again resets label=$4 tsnatd=${5:-}

	progress "  $label"
	topology_up "$1"
	clients=("${CLIENTS[@]}")
	timestamps "$3" "${clients[@]}"
	client_ports $LOW $HIGH "${clients[@]}"
	start_nginx
	if [ -n "$tsnatd" ]; then
		# shellcheck disable=SC2086
		start_tsnatd $tsnatd || {
			tail -n 3 "$LOG" >&2
			die "tsnatd $tsnatd did not start"
		}
	fi
	use_every_port ipv4 "${clients[@]}"
	masquerade "$2"
	mark
	load ipv4 $SECONDS_PER_ROW "${clients[@]}"

	sent=$(since srv TcpPassiveOpens)
	refusals=$(($(refused) + $(since srv TcpExtTCPChallengeACK)))
	again=$(since_all TcpExtTCPSynRetrans "${clients[@]}")
	resets=$(since_all TcpOutRsts srv "${clients[@]}")
	rows+=("$label|$RATE|$sent|$refusals|$again|$resets")
	[ -z "$tsnatd" ] || [ $((refusals * 1000)) -le "$sent" ] || worst=1
	if [ -n "$tsnatd" ]; then
		forget_tsnatd
	fi
	topology_down
}

bar() { # VALUE MAXIMUM
	local eighths=$(($1 * BAR * 8 / $2)) out= n parts=('' ▏ ▎ ▍ ▌ ▋ ▊ ▉)

	[ $eighths -gt 0 ] || eighths=1
	for ((n = 0; n < eighths / 8; n++)); do out+=█; done
	out+=${parts[eighths % 8]}
	n=$((BAR - (eighths + 7) / 8))
	printf '%s%*s' "$out" $n ''
}

table() {
	local row label rate sent refusals again resets max=1

	for row in "${rows[@]}"; do
		IFS='|' read -r label rate _ <<<"$row"
		[ "${rate:-0}" -le $max ] || max=$rate
	done
	printf '%-30s %10s %*s %11s %7s %6s %6s\n' '' '' $BAR '' '' refused SYNs '' | sed 's/ *$//'
	printf '%-30s %10s %*s %11s %7s %6s %6s\n' '' requests/s $BAR '' connections SYNs resent resets
	for row in "${rows[@]}"; do
		IFS='|' read -r label rate sent refusals again resets <<<"$row"
		if [ -z "$rate" ]; then
			printf '\n%s\n' "$label"
			continue
		fi
		printf '%-30s %10d %s %11d %7d %6d %6d\n' "$label" "$rate" "$(bar "$rate" $max)" \
			"$sent" "$refusals" "$again" "$resets"
	done
}

# fixed TEXT: the sentence about the last five rows, --random-fully -> tsnatd --decide kernel
fixed() {
	local n=${#rows[@]} rate0 rate1 sent0 refused0 sent1 refused1

	IFS='|' read -r _ rate0 sent0 refused0 _ <<<"${rows[n - 4]}"
	IFS='|' read -r _ rate1 sent1 refused1 _ <<<"${rows[n - 2]}"
	[ "$rate0" -gt 0 ] || rate0=1
	printf '%s: %d -> %d requests/s (x %d), %d of %d SYNs refused -> %d of %d.\n' \
		"$1" "$rate0" "$rate1" $((rate1 / rate0)) \
		"$refused0" $((sent0 + refused0)) "$refused1" $((sent1 + refused1))
}

rows_for() { # CLIENTS
	measure "$1" plain 1 '  plain MASQUERADE'
	measure "$1" random 1 '  --random-fully'
	measure "$1" random 1 '  + tsnatd --decide queue' '--decide queue'
	measure "$1" random 1 '  + tsnatd --decide kernel' '--decide kernel'
	measure "$1" random 2 "$2"
}

need_daemon
begin >&2
progress "10 runs, $SECONDS_PER_ROW s each:"
rows+=('Two clients with unrelated clocks: each port meets both')
rows_for 2 '  reference: one shared clock*'
two=$(fixed 'Fixed for two clients')
rows+=('One client: plain MASQUERADE keeps its ports, so each port meets one clock')
rows_for 1 '  reference: tcp_timestamps=2'
one=$(fixed 'Fixed for one client')

cat <<END

Short connections through a NAT with $((HIGH - LOW + 1)) external ports. At the start the server holds
a TIME_WAIT for each of them. tsnatd works behind --random-fully.
Linux $(uname -r), wrk -> MASQUERADE -> nginx, 100 connections at a time, $SECONDS_PER_ROW s.

END
table
cat <<END

* tcp_timestamps=2 in two namespaces of one kernel. Two real machines do not share a clock.

Plain MASQUERADE is fast for one client only. A gateway has many, and the first table is theirs.

$two
$one
END
[ $worst = 0 ] || progress "tsnatd's rows still have refused SYNs"
exit $worst
