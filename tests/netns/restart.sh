#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# restart.sh - tsnatd is restarted, killed, killed while it writes its state, rebooted, and started
# beside a damaged state file, all under traffic. No live connection breaks, and no SYN leaves below
# its tuple's floor afterwards.
#
# A reboot is simulated by taking away the live table, the filters and the conntrack entries; then
# the state file is all there is.

. "$(dirname "$0")/lib.sh"

PORTS=500 # so that each is reused many times
HIGH=$((LOW + PORTS - 1))

now() { date +%s.%N; }

# violations_outside CAPTURE FROM TO: how many SYNs were below their tuple's last TSval, and shifts
# changed.
#
# A daemon that was told to stop leaves new connections alone until the next one has started, so
# SYNs between the two times do not count. Nor do their tuples from there on: the SYN was refused,
# then accepted when the client's reset had ended the server's TIME_WAIT, and since then the server
# knows less than the capture does.
violations_outside() {
	check_capture "$TMP/check.json" --examples 1000000 "$1"
	sed -n 's/^  "\([0-9.]* .*\)",\{0,1\}$/\1/p' "$TMP/check.json" |
		awk -v from="$2" -v to="$3" '
			{ tuple = $2 " " $4 }
			$1 >= from && $1 <= to { between[tuple] = 1; next }
			!(tuple in between)' >"$TMP/violations"
	wc -l <"$TMP/violations"
}

# A thousand connections per second are enough, and leave the processors to tsnatd. The client takes
# its time, not the server: with a slow server, NAT would give ports away before the last packets of
# their old connections have come through.
traffic_begins() {
	mark
	steady_load ipv4 c1 3
	WRK=$SPAWNED
	wait_for 20 connections_since 200 || die "no traffic: $(cat "$TMP/wrk")"
}

traffic_ends() { # N: when so many connections were made since mark
	wait_for 60 connections_since "$1"
	end "$WRK" INT
	wait_for 3 no_syn_sent c1
}

# Without BPF programs nobody decides on a SYN while no daemon runs, and nobody sees TSvals leave.
# So no SYN is sent then; open connections go on.
no_daemon() { # DECIDE
	[ "$1" = no-bpf ] || return 0
	kill -STOP "$WRK"
	wait_for 5 no_syn_sent c1
}

daemon_again() { # DECIDE
	[ "$1" != no-bpf ] || kill -CONT "$WRK"
}

state_is_written_again() { # the file is another one than $1, its stamp before
	[ "$(stat -c %i "$STATE_DIR/state" 2>/dev/null)" != "$1" ]
}

save_now() {
	local before

	before=$(stat -c %i "$STATE_DIR/state" 2>/dev/null)
	kill -HUP "$TSNATD_PID"
	wait_for 10 state_is_written_again "$before" || die "the state is not written on SIGHUP"
}

setup() {
	topology_up 1
	start_nginx
	start_peer
	masquerade plain
	: >"$LOG"
}

# Lost with the power: the table, the programs, the rules, and conntrack's entries.
reboot() {
	stop_tsnatd "${1:-KILL}"
	on gw "$TSNATD" -i out --runtime-dir "$RUNTIME_DIR" --state-dir "$STATE_DIR" \
		--pin-dir "$PIN_DIR" --cleanup \
		>>"$LOG" 2>&1
	on gw conntrack -F >/dev/null 2>&1
	is "${2:-reboot}: no filter and no table is left" \
		"$(on gw tc filter show dev out egress | wc -l) $(
			find "$PIN_DIR" -type f 2>/dev/null | wc -l)" '0 0'
}

# ---- the live table stays --------------------------------------------------------------------

under_traffic() { # DECIDE ARGS...
	local what="$*, under traffic" args=($(how "$1") "${@:2}") cap file=$TMP/server.pcap \
		stopped started i n hit=0

	setup
	must_start_tsnatd "${args[@]}"
	capture srv eth0 "$file"
	cap=$SPAWNED
	use_every_port ipv4 c1
	for i in 0 1 2 3 4; do
		talk_half_shifted $((LOW + i))
	done
	is "$what: five connections are open and shifted" "$(stat_of connections_shifted)" 5
	masquerade random
	traffic_begins

	no_daemon "$1"
	stop_tsnatd KILL
	sleep 0.5
	must_start_tsnatd "${args[@]}"
	daemon_again "$1"
	talk_completes "$what: SIGKILL and start: an open connection goes on" $LOW

	for ((i = 0; i < 40 && hit < 4; i++)); do # on a disk that is quick to sync it takes some
		no_daemon "$1"
		kill -HUP "$TSNATD_PID"
		for ((n = 0; n < 20000; n++)); do # some 100 ms
			[ ! -e "$STATE_DIR/state.new" ] || break
		done
		stop_tsnatd KILL
		[ ! -e "$STATE_DIR/state.new" ] || hit=$((hit + 1))
		must_start_tsnatd "${args[@]}"
		daemon_again "$1"
	done
	at_least "$what: of $i times killed it left an unfinished state file" $hit 1
	talk_completes "$what: SIGKILL while it writes: an open connection goes on" $((LOW + 1))

	no_daemon "$1"
	stopped=$(now)
	stop_tsnatd
	must_start_tsnatd "${args[@]}"
	started=$(now)
	daemon_again "$1"
	talk_completes "$what: restart: an open connection goes on" $((LOW + 2))

	no_daemon "$1"
	stop_tsnatd KILL
	truncate -s 100 "$STATE_DIR/state"
	must_start_tsnatd "${args[@]}"
	daemon_again "$1"
	sleep 0.5
	talk_completes "$what: beside a damaged state file: an open connection goes on" $((LOW + 3))
	is "$what: which nobody read, as the live table was there" \
		"$(grep -c 'cannot be used' "$LOG")" 0
	mark
	traffic_ends $((5 * PORTS))
	at_most "$what: SYNs that the server refuses in the end" "$(refused)" 3
	talk_completes "$what: the last open connection goes on" $((LOW + 4))
	capture_end "$cap" "$file"

	is "$what: no packet escaped the capture" "$LOST" 0
	is "$what: no SYN below its floor, no shift changed, but for SYNs between stop and start" \
		"$(violations_outside "$file" "$stopped" "$started")" 0
	head -n 5 "$TMP/violations" | sed 's/^/#   /'
	at_least "$what: reuses in the capture" "$(json "$TMP/check.json" reuses)" $((4 * PORTS))
	is "$what: nothing was cut off by a wrong shift: PAWSEstab, PAWSActive at the client" \
		"$(snmp c1 TcpExtPAWSEstab) $(snmp c1 TcpExtPAWSActive)" '0 0'
	is "$what: none of its own is shifted any more" "$(stat_of connections_shifted)" 0
	forget_tsnatd
}

# ---- the live table is gone ------------------------------------------------------------------

# tsnatd as it finds itself after a reboot that left the runtime directory as it was.
in_another_boot() { # ARGS of must_start_tsnatd
	cat >"$TMP/another-boot" <<-END
		#!/bin/sh
		mount --bind "$TMP/boot_id" /proc/sys/kernel/random/boot_id && exec "$TSNATD" "\$@"
	END
	chmod +x "$TMP/another-boot"
	echo 01234567-89ab-4cde-8f01-23456789abcd >"$TMP/boot_id"
	printf '#!/bin/sh\nexec unshare --mount "%s" "$@"\n' "$TMP/another-boot" >"$TMP/rebooted"
	chmod +x "$TMP/rebooted"
	TSNATD=$TMP/rebooted must_start_tsnatd "$@"
}

# rebooted DECIDE KEEP ARGS...: KEEP is 1 with the state file, 0 without it, as a comparison.
rebooted() {
	local what="$1${3:+, ${*:3}}, reboot" keep=$2 cap file=$TMP/server.pcap records refusals \
		stale=0

	[ "$1" != no-bpf ] ||
		stale=3 # see main-job.sh; without the state file it is a matter of dozens
	setup
	must_start_tsnatd $(how "$1") "${@:3}"
	capture srv eth0 "$file"
	cap=$SPAWNED
	use_every_port ipv4 c1
	masquerade random
	traffic_begins
	traffic_ends $((2 * PORTS))
	save_now
	records=$(stat_of records)
	# the mapping of the other boot, as far as it came to the disk
	[ ! -e "$RUNTIME_DIR/records.map" ] || cp "$RUNTIME_DIR/records.map" "$TMP/records.map"
	reboot KILL "$what"
	[ "$keep" = 1 ] || rm -f "$STATE_DIR"/state*
	if [ -e "$TMP/records.map" ]; then
		mv "$TMP/records.map" "$RUNTIME_DIR/"
		in_another_boot $(how "$1") "${@:3}"
	else
		must_start_tsnatd $(how "$1") "${@:3}"
	fi
	if [ "$keep" = 1 ]; then
		is "$what: all records are back" \
			"$(sed -n 's/.*restored \([0-9]*\) records.*/\1/p' "$LOG" | tail -n 1)" \
			"$records"
		is "$what: tsnatctl shows them" "$(stat_of records)" "$records"
	fi
	traffic_begins
	traffic_ends $((3 * PORTS))
	refusals=$(refused)
	capture_end "$cap" "$file"
	check_capture "$TMP/check.json" "$file"
	if [ "$keep" = 0 ]; then
		at_least "$what without the state file: the server refuses SYNs" "$refusals" 5
	else
		at_least "$what: connections after it" "$(since srv TcpPassiveOpens)" $((2 * PORTS))
		at_most "$what: SYNs not above what their tuple sent before" \
			"$(json "$TMP/check.json" violations)" $stale
		[ "$(json "$TMP/check.json" violations)" -le $stale ] ||
			sed 's/^/#   /' "$TMP/check.json"
		at_most "$what: SYNs that the server refused" "$refusals" 3
	fi
	forget_tsnatd
}

# damaged DECIDE TEXT MAKES USABLE: a reboot, with the file as the commands MAKES leave it; USABLE
# is 1 where the temporary is whole
damaged() {
	local what="$1, state file $2" records

	reboot KILL "$what"
	cp "$TMP/good" "$STATE_DIR/state"
	(cd "$STATE_DIR" && eval "$3") || die "cannot prepare: $3"
	rm -f "$STATE_DIR/state.bad"
	: >"$LOG"
	if start_tsnatd $(how "$1"); then
		ok "$what: starts"
	else
		not_ok "$what: starts" "$(tail -n 3 "$LOG")"
	fi
	is "$what: one warning" "$(grep -c 'cannot be used' "$LOG")" 1
	note "it says: $(sed -n "s|^$STATE_DIR/\(.*cannot be used.*\)|\1|p" "$LOG")"
	succeeds "$what: set aside" test -e "$STATE_DIR/state.bad"
	records=$(stat_of records)
	if [ "$4" = 1 ]; then
		is "$what: the temporary is used" "$records" "$RECORDS"
	else
		is "$what: begins with an empty table" "$records" 0
	fi
	mark
	talk ipv4 c1 20003 >/dev/null
	is "$what: connections work" "$(since c1 TcpActiveOpens) $(since c1 TcpEstabResets)" '1 0'
}

damaged_files() { # DECIDE
	setup
	must_start_tsnatd $(how "$1")
	talk ipv4 c1 20001 >/dev/null
	talk ipv4 c1 20002 >/dev/null
	save_now
	RECORDS=$(stat_of records)
	cp "$STATE_DIR/state" "$TMP/good"
	damaged "$1" 'of 0 bytes' ': >state' 0
	damaged "$1" 'of NULs' 'n=$(stat -c %s state); rm state; truncate -s $n state' 0
	damaged "$1" 'cut in the middle' 'truncate -s $(($(stat -c %s state) / 2)) state' 0
	damaged "$1" 'with a wrong checksum' \
		'printf X | dd of=state bs=1 seek=100 conv=notrunc status=none' 0
	damaged "$1" 'empty beside a whole temporary' 'mv state state.new; : >state' 1
	forget_tsnatd
}

# ---- the sweep -------------------------------------------------------------------------------

# An idle shifted connection keeps its record as long as conntrack knows it, far beyond the hold
# time.
idle() { # DECIDE
	local what="$1, hold 2 s"

	setup
	must_start_tsnatd $(how "$1") --hold 2
	talk_half_shifted 20001
	talk_half_shifted 20002
	sleep 5
	is "$what: two idle shifted connections survive the sweep, and nothing else" \
		"$(stat_of connections_shifted) $(stat_of records)" '2 2'
	succeeds "$what: conntrack forgets one of them" \
		on gw conntrack -D -p tcp --reply-port-dst 20002 --reply-port-src 7000
	succeeds "$what: then its record goes" wait_for 6 eval '[ "$(stat_of records)" = 1 ]'
	is "$what: and is not counted any more" "$(stat_of connections_shifted)" 1
	sleep 2
	is "$what: the other one stays" "$(stat_of records)" 1
	mark
	talk_completes "$what: and goes on" 20001
	is "$what: undisturbed: PAWSEstab, PAWSActive" \
		"$(since srv TcpExtPAWSEstab) $(since c1 TcpExtPAWSActive)" '0 0'
	succeeds "$what: closed, its record goes after the hold time" \
		wait_for 6 eval '[ "$(stat_of records)" = 0 ]'
	forget_tsnatd
}

need_daemon
begin
try under_traffic queue
try under_traffic kernel
try under_traffic kernel --policy unify
try under_traffic no-bpf
try rebooted queue 1
try rebooted queue 0
try rebooted kernel 1 --policy unify
try rebooted no-bpf 1
try rebooted no-bpf 0
try damaged_files queue
try damaged_files no-bpf
try idle queue
try idle no-bpf
finish
