#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# gap.sh - SYNs between the end of one tsnatd and the start of the next, with both settings of restart_gap.
#
# fd-store.py is the service manager. Each SYN goes to a tuple that the server has in TIME_WAIT with a later clock: decided, it is accepted;
# undecided, it is refused. Whether one waits is read from the kernel's list of queues, never from how long something takes.

. "$(dirname "$0")/lib.sh"

STORE=
HELD=

# ---- the service manager -------------------------------------------------------------------------------

manager_begins() {
	rm -rf "$TMP/manager"
	mkdir "$TMP/manager"
	mkfifo "$TMP/manager/commands"
	: >"$TMP/manager.log"
	spawn gw "$TMP/manager.log" "$PYTHON" "$here/fd-store.py" "$TMP/manager"
	STORE=$SPAWNED
	wait_for 10 test -S "$TMP/manager/manager" || die "no service manager: $(cat "$TMP/manager.log")"
}

manager_ends() {
	tell end
	wait "$STORE"
	forget "$STORE"
	TSNATD_PID=
}

tell() { # WORDS for fd-store.py
	printf '%s\n' "$*" >"$TMP/manager/commands"
}

said() { grep -c "^$1" "$TMP/manager.log"; }

# tell_until SECONDS REGEX WORDS...: it is told, and in time the manager says something new that matches
tell_until() {
	local limit=$1 regex=$2 before

	before=$(said "$regex")
	shift 2
	tell "$@"
	wait_for "$limit" eval "[ \$(said '$regex') -gt $before ]"
}

daemon_line() { # ARGS of tsnatd
	echo "start $TSNATD -i out --runtime-dir $RUNTIME_DIR --state-dir $STATE_DIR --pin-dir $PIN_DIR $* ${TSNATD_ARGS[*]}"
}

begin_daemon() { # ARGS of tsnatd
	tell_until 60 ready "$(daemon_line "$@")" || die "tsnatd $* did not start: $(tail -n 5 "$TMP/manager.log")"
	TSNATD_PID=$(sed -n 's/^started //p' "$TMP/manager.log" | tail -n 1)
}

end_daemon() { # [SIGNAL]
	tell_until 60 ended signal "${1:-TERM}" || die "tsnatd does not end: $(tail -n 5 "$TMP/manager.log")"
	TSNATD_PID=
}

kept() { # how many queues the manager has
	awk '/^stored queue-/ { n++ } /^removed queue-/ { n-- } /^forgotten/ { n = 0 } END { print n + 0 }' "$TMP/manager.log"
}

# ---- SYNs ------------------------------------------------------------------------------------------------

waiting() { # packets in all queues of the gateway
	on gw awk '{ n += $3 } END { print n + 0 }' /proc/net/netfilter/nfnetlink_queue 2>/dev/null || echo 0
}

bound() { # queues of the gateway
	on gw cat /proc/net/netfilter/nfnetlink_queue | wc -l
}

rules() { on gw nft list tables | grep -c tsnatd; }

# syn PORT: a connection from there begins, and goes on in the background
syn() {
	rm -f "$TMP/talk"
	mark
	spawn c1 "$TMP/talk" "$PYTHON" "$here/peer.py" talk $SERVER4 7000 --local-port "$1"
	HELD=$SPAWNED
}

is_held() { # TEXT
	wait_for 10 eval '[ "$(waiting)" -ge 1 ]'
	at_least "$1: the SYN waits in the queue" "$(waiting)" 1
	is "$1: and did not pass" "$(since srv TcpPassiveOpens) $(refused)" '0 0'
}

connects() { # TEXT
	local status

	wait "$HELD"
	status=$?
	forget "$HELD"
	if [ $status = 0 ]; then ok "$1"; else not_ok "$1" "$(cat "$TMP/talk")" "$(tail -n 5 "$TMP/manager.log")"; fi
}

# decided TEXT: it connects, and was never refused
decided() {
	connects "$1: the connection is made"
	is "$1: its SYN was decided before it left" "$(refused)" 0
}

undecided() { # TEXT
	connects "$1: the connection is made"
	at_least "$1: its SYN passed undecided" "$(refused)" 1
}

setup() {
	topology_up 1
	start_peer
	masquerade plain
	manager_begins
}

teardown() {
	[ -z "$TSNATD_PID" ] || end_daemon
	manager_ends
	forget_tsnatd
}

# ---- cases -------------------------------------------------------------------------------------------------

# waits DATAPATH ARGS...: over a stop and over a crash
waits() {
	local what="wait, $*" n

	setup
	begin_daemon --restart-gap wait "$@"
	n=$(bound)
	at_least "$what: queues are bound" "$n" 1
	is "$what: those for SYNs are kept" "$(kept)" "$EXPECT"

	arm ipv4 c1 20001
	end_daemon
	is "$what, stop: they stay bound" "$(bound)" "$EXPECT"
	is "$what, stop: so do the rules" "$(rules)" 2
	syn 20001
	is_held "$what, stop"
	begin_daemon --restart-gap wait "$@"
	decided "$what, stop and start"
	is "$what, stop and start: no queue was kept twice" "$(kept)" "$EXPECT"

	arm ipv4 c1 20002
	end_daemon KILL
	syn 20002
	is_held "$what, SIGKILL"
	begin_daemon --restart-gap wait "$@"
	decided "$what, SIGKILL and start"

	arm ipv4 c1 20003
	syn 20003
	decided "$what: and then as ever"
	is "$what: no verdict came late" "$(stat_of verdicts_late)" 0
	teardown
}

bypass() {
	local what='bypass'

	setup
	begin_daemon
	is "$what: nothing is kept" "$(kept)" 0
	arm ipv4 c1 20001
	end_daemon
	is "$what: no queue is bound, no rule there" "$(bound) $(rules)" '0 0'
	syn 20001
	undecided "$what"
	teardown
}

# The manager starts no other one.
no_next_start() {
	local what='wait, no next start'

	setup
	begin_daemon --restart-gap wait --queues 2
	arm ipv4 c1 20001
	end_daemon
	tell_until 10 forgotten forget
	is "$what: no queue is bound" "$(bound)" 0
	syn 20001
	undecided "$what: with the rules still there"
	succeeds "$what: --remove-rules" on gw "$TSNATD" --runtime-dir "$RUNTIME_DIR" --remove-rules
	is "$what: no rules" "$(rules)" 0
	teardown
}

# The next start fails, or hangs, after it has taken the queues over.
bad_next_start() {
	local what='wait, the next start fails'

	setup
	begin_daemon --restart-gap wait --queues 2
	arm ipv4 c1 20001
	end_daemon
	syn 20001
	is_held "$what"
	touch "$TMP/file"
	tell_until 60 ended "$(daemon_line --restart-gap wait --queues 2 --state-dir "$TMP/file/state")"
	is "$what: as a failure" "$(grep '^ended' "$TMP/manager.log" | tail -n 1)" 'ended 1'
	undecided "$what"
	is "$what: no queue is kept or bound" "$(kept) $(bound)" '0 0'
	begin_daemon --restart-gap wait --queues 2
	arm ipv4 c1 20002
	syn 20002
	decided "$what: and the one after it"
	is "$what: queues are kept again" "$(kept)" 2

	what='wait, the next start hangs'
	arm ipv4 c1 20003
	end_daemon
	syn 20003
	is_held "$what"
	mv "$STATE_DIR/secret" "$TMP/secret"
	mkfifo "$STATE_DIR/secret.new" # nobody reads: to open it for writing waits
	tell_until 10 started "$(daemon_line --restart-gap wait --queues 2)"
	undecided "$what"
	is "$what: it still does" "$(said ready) $(said ended)" '2 3'
	tell_until 60 ended signal KILL
	rm "$STATE_DIR/secret.new"
	mv "$TMP/secret" "$STATE_DIR/secret"
	teardown
}

# What the next start wants is something else.
changed() {
	local what='wait, fewer queues'

	setup
	begin_daemon --restart-gap wait --queues 3
	is "$what: three are kept" "$(kept)" 3
	end_daemon
	begin_daemon --restart-gap wait --queues 1
	is "$what: one is kept and bound" "$(kept) $(bound)" '1 1'

	what='wait, another number'
	arm ipv4 c1 20001
	end_daemon
	syn 20001
	is_held "$what"
	begin_daemon --restart-gap wait --queue-num 700 --queues 1
	connects "$what: the connection is made"
	is "$what: one is kept, one bound" "$(kept) $(bound)" '1 1'
	arm ipv4 c1 20002
	syn 20002
	decided "$what: and then"

	what='wait, then another datapath'
	end_daemon
	begin_daemon --restart-gap wait --queue-num 700 --queues 1 --datapath queue
	is "$what: one is kept, three are bound" "$(kept) $(bound)" '1 3'
	arm ipv4 c1 20003
	syn 20003
	decided "$what: and then"
	end_daemon

	what='wait, then decisions in the kernel'
	begin_daemon --restart-gap wait --decide kernel
	is "$what: none is kept or bound" "$(kept) $(bound)" '0 0'
	teardown
}

reloaded() {
	local what='reload'

	setup
	echo 'restart_gap = "wait"; queues = 2;' >"$TMP/gap.conf"
	begin_daemon -c "$TMP/gap.conf"
	is "$what: two are kept" "$(kept)" 2
	echo 'queues = 2;' >"$TMP/gap.conf"
	tell_until 20 ready signal HUP
	is "$what to bypass: none is" "$(kept)" 0
	echo 'restart_gap = "wait"; queues = 2;' >"$TMP/gap.conf"
	tell_until 20 ready signal HUP
	is "$what to wait: two are" "$(kept)" 2
	echo 'queues = 2;' >"$TMP/gap.conf"
	tell_until 20 ready signal HUP
	end_daemon
	is "$what to bypass, stop: no queue is bound, no rule there" "$(bound) $(rules)" '0 0'
	is "$what: needs no restart" "$(grep -c 'with a restart only' "$TMP/manager.log")" 0
	teardown
}

nobody_keeps() {
	local what='wait without a service manager'

	topology_up 1
	: >"$LOG"
	spawn gw "$LOG" "$TSNATD" -i out --runtime-dir "$RUNTIME_DIR" --state-dir "$STATE_DIR" --pin-dir "$PIN_DIR" --restart-gap wait
	TSNATD_PID=$SPAWNED
	wait_for 60 ctl status || die "tsnatd does not start: $(cat "$LOG")"
	is "$what: says so in one line" "$(grep -c 'restart_gap: no service manager that could keep the queues' "$LOG")" 1
	stop_tsnatd
	is "$what: no queue is bound, no rule there" "$(bound) $(rules)" '0 0'
	forget_tsnatd
}

need_daemon
begin
bypass
EXPECT=2 waits --datapath bpf --queues 2
EXPECT=$(nproc) waits --datapath bpf
EXPECT=1 waits --datapath queue
no_next_start
bad_next_start
changed
reloaded
nobody_keeps
finish
