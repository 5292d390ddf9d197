# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# lib-tsnatd.sh - start, stop and ask tsnatd in the gateway. Sourced by lib.sh.

# start_tsnatd ARGS...: in the gateway, ready when this returns 0
start_tsnatd() {
	local sock=$TMP/notify.sock waiter

	rm -f "$sock"
	"$PYTHON" "$here/notify-wait.py" "$sock" 15 &
	waiter=$!
	wait_for 5 [ -S "$sock" ]
	NOTIFY_SOCKET=$sock spawn gw "$LOG" "$TSNATD" -i "$UPLINK" --runtime-dir "$RUNTIME_DIR" \
		--state-dir "$STATE_DIR" \
		--pin-dir "$PIN_DIR" "$@" "${TSNATD_ARGS[@]}"
	TSNATD_PID=$SPAWNED
	while kill -0 $waiter 2>/dev/null && kill -0 "$TSNATD_PID" 2>/dev/null; do
		sleep 0.02
	done
	if kill -0 $waiter 2>/dev/null; then
		kill $waiter
		wait $waiter 2>/dev/null
		wait "$TSNATD_PID"
		TSNATD_STATUS=$?
		forget "$TSNATD_PID"
		TSNATD_PID=
		return 1
	fi
	wait $waiter
}

# Ways of deciding and shifting: SYNs decided in the queue, or in the egress program, both with the
# bpf datapath; and the datapath without BPF. WAYS in the environment picks some.
case " ${TSNATD_ARGS[*]} " in *' --datapath queue '*) WAYS=no-bpf ;; esac
WAYS=${WAYS:-queue kernel no-bpf}

# try FUNCTION ARGS...: call it, unless one of ARGS is a way that is not picked
try() {
	local arg

	for arg in "$@"; do
		case $arg in
		queue | kernel | no-bpf) [[ " $WAYS " == *" $arg "* ]] || return 0 ;;
		esac
	done
	"$@"
}

# how queue|kernel|no-bpf: the arguments for that way
how() {
	case $1 in
	no-bpf) echo --datapath queue ;;
	*) echo --datapath bpf --decide "$1" ;;
	esac
}

must_start_tsnatd() {
	start_tsnatd "$@" || die "tsnatd $* did not start: $(tail -n 5 "$LOG")"
}

stop_tsnatd() { # [SIGNAL]
	[ -n "$TSNATD_PID" ] || return 0
	end "$TSNATD_PID" "${1:-TERM}"
	TSNATD_PID=
}

children_of() { # PID
	grep -l "^PPid:[[:space:]]$1\$" /proc/[0-9]*/status 2>/dev/null | grep -o '[0-9]*'
}

# Stop the guardian, which would answer for the daemon, then the daemon: queued SYNs wait.
hold_queue() {
	local children

	children=$(children_of "$TSNATD_PID")
	kill -STOP $children "$TSNATD_PID"
}

release_queue() {
	local children

	children=$(children_of "$TSNATD_PID")
	kill -CONT "$TSNATD_PID" $children
}

# Filters, rules, pins and state go, those of a crash, too.
forget_tsnatd() {
	stop_tsnatd
	on gw "$TSNATD" -i "$UPLINK" --runtime-dir "$RUNTIME_DIR" --state-dir "$STATE_DIR" \
		--pin-dir "$PIN_DIR" --cleanup \
		>>"$LOG" 2>&1
	rm -rf "$STATE_DIR" "$PIN_DIR"
	mkdir -p "$STATE_DIR"
}

ctl() { # ARGS of tsnatctl
	"$TSNATCTL" "$@" --socket "$RUNTIME_DIR/io.tsnatd.Gateway"
}

stat_of() { # COUNTER of tsnatctl stats
	ctl stats --json >"$TMP/stats.json" 2>/dev/null
	json "$TMP/stats.json" "$1"
}
