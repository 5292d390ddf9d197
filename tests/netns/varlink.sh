#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# varlink.sh - the daemon's varlink socket: two clients that are not ours understand it, varlinkctl
# and python-varlink. Other users may ask but not reload. Callers that send a thousand calls and
# read nothing are cut off, and no SYN is delayed.

. "$(dirname "$0")/lib.sh"

PORTS=2000
HIGH=$((LOW + PORTS - 1))
SOCKET=$RUNTIME_DIR/io.tsnatd.Gateway
INTERFACE=io.tsnatd.Gateway
CONF=

skip() { # TEXT REASON
	printf 'ok - %s # SKIP %s\n' "$1" "$2"
}

# A gateway with an open connection, which is shifted, and a closed one.
setup() {
	topology_up 1
	start_peer
	start_nginx
	masquerade plain
	: >"$LOG"
	CONF=$TMP/conf
	: >"$CONF"
	must_start_tsnatd -c "$CONF" $(how queue)
	talk ipv4 c1 20009 >/dev/null
	arm ipv4 c1 20001
	talk_half ipv4 c1 20001
}

# ---- varlinkctl ------------------------------------------------------------------------------

vctl() {
	timeout 60 "${VARLINKCTL[@]}" --no-pager "$@"
}

call() { # METHOD [PARAMETERS [OPTION...]]
	vctl call -j "${@:3}" "$SOCKET" "$INTERFACE.$1" "${2:-{\}}"
}

field() { # NAME, of JSON objects on standard input, one in each line
	"$PYTHON" -c 'import json, sys
for line in sys.stdin:
    print(json.dumps(json.loads(line.strip("\x1e"))[sys.argv[1]], separators=(",", ":")))' "$1"
}

refuses() { # TEXT ERROR METHOD [PARAMETERS [OPTION...]]
	local out

	if out=$(call "${@:3}" 2>&1); then
		not_ok "varlinkctl: $1: refused" "$out"
	elif grep -q "$2" <<<"$out"; then
		ok "varlinkctl: $1: $2"
	else
		not_ok "varlinkctl: $1: $2" "$out"
	fi
}

by_varlinkctl() {
	local version

	note "$(vctl --version | head -n 1)"
	is 'varlinkctl info' "$(vctl info -j "$SOCKET" | field product)" '"tsnatd"'
	is 'varlinkctl list-interfaces' \
		"$(vctl list-interfaces "$SOCKET" | sort | xargs)" "$INTERFACE org.varlink.service"
	succeeds 'varlinkctl introspect parses the definition' \
		vctl introspect "$SOCKET" "$INTERFACE"
	vctl introspect "$SOCKET" "$INTERFACE" >"$TMP/idl" 2>"$TMP/idl.problems"
	is 'varlinkctl introspect finds nothing to complain about' "$(cat "$TMP/idl.problems")" ''
	succeeds 'varlinkctl validate-idl' vctl validate-idl "$TMP/idl"
	version=$("$TSNATCTL" --version | cut -d' ' -f2)
	is 'varlinkctl: GetStatus' \
		"$(call GetStatus | field version) $(call GetStatus | field datapath)" \
		"\"$version\" \"bpf\""
	is 'varlinkctl: GetStatistics' "$(call GetStatistics | field connections_shifted)" 1
	is 'varlinkctl: GetRules gives a table as nft takes it' \
		"$(call GetRules | field nft | grep -c 'table ip6 tsnatd')" 1
	is 'varlinkctl: ListConnections' \
		"$(call ListConnections '{}' --more | field connections |
			grep -o '"state":"[a-z]*"' | sort | uniq -c | xargs)" \
		'1 state:established'
	is 'varlinkctl: ListConnections, closed ones too' \
		"$(call ListConnections '{"closed":true}' --more | field connections |
			grep -o '"state":"[a-z]*"' | sort -u | xargs)" \
		'state:closed state:established'
	is 'varlinkctl: ListDestinations' \
		"$(call ListDestinations '{}' --more | field destinations |
			grep -o '"port":[0-9]*')" '"port":7000'
	is 'varlinkctl: Monitor' \
		"$(call Monitor '{"interval_s":1}' --more --timeout=infinity 2>/dev/null |
			head -n 2 | field connections_shifted | xargs)" '1 1'
	refuses 'a listing without more' ExpectedMore ListConnections
	refuses 'an interval of 0' InvalidParameter Monitor '{"interval_s":0}' --more
	refuses 'an unknown parameter' InvalidParameter GetStatus '{"x":1}'
	refuses 'an unknown method' MethodNotFound NoSuchMethod
	fails 'varlinkctl: an unknown interface' vctl introspect "$SOCKET" io.tsnatd.Nothing
	echo 'hold = 77;' >"$CONF"
	is 'varlinkctl: Reload' "$(call Reload | field needs_restart)" '[]'
	is 'varlinkctl: the new configuration is in force' "$(call GetStatus | field hold_s)" 77
	echo 'hold = 0;' >"$CONF"
	refuses 'Reload of a bad file' ConfigurationInvalid Reload
	is 'varlinkctl: the old configuration stays' "$(call GetStatus | field hold_s)" 77
	: >"$CONF"
}

by_python() {
	local line

	while IFS= read -r line; do
		case $line in
		'ok - '*) ok "${line#ok - }" ;;
		'not ok - '*) not_ok "${line#not ok - }" ;;
		'status '*) is 'python-varlink: came to its end' "${line#status }" 0 ;;
		*) note "${line#\#}" ;;
		esac
	done < <(PYTHONPATH=$PYTHON_VARLINK timeout 120 \
		"$PYTHON" "$here/varlink-python.py" "$SOCKET" 2>&1
		echo "status $?")
}

clients() {
	local what

	if ! what=$("$top/tests/varlink-clients.sh" 2>"$TMP/clients.problem"); then
		skip 'varlinkctl and python-varlink' "$(tail -n 1 "$TMP/clients.problem")"
		return
	fi
	eval "$what"
	by_varlinkctl
	by_python
}

# ---- users -----------------------------------------------------------------------------------

as_nobody() { # COMMAND...
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

other_users() {
	local reloads

	# the build may be where others cannot look
	mkdir -m 755 "$TMP/bin"
	install -m 755 "$TSNATCTL" "$TMP/bin/tsnatctl"
	chmod 755 "$TMP"
	succeeds "another user may ask" as_nobody "$TMP/bin/tsnatctl" status --socket "$SOCKET"
	reloads=$(grep -c '^reloaded' "$LOG")
	is "but not reload" \
		"$(as_nobody "$TMP/bin/tsnatctl" reload --socket "$SOCKET" 2>&1; echo $?)" \
		$'tsnatctl: only root and the user that tsnatd runs as may reload: try sudo\n1'
	is "and the daemon does not" "$(grep -c '^reloaded' "$LOG")" "$reloads"
}

# ---- callers that do not read ----------------------------------------------------------------

# Eight callers with a thousand calls each, whose answers are three megabytes. The program prints a
# line when each was cut off.
NEVER_READ='
import select, socket, sys, time
N = 8
call = b"".join(b"{\"method\":\"io.tsnatd.Gateway.%s\"%s}\0" % m for m in 250 * (
    (b"GetStatistics", b""), (b"GetStatus", b""), (b"GetRules", b""),
    (b"ListConnections", b",\"more\":true")))
socks, poll = {}, select.poll()
for i in range(N):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    s.connect(sys.argv[1])
    socks[s.fileno()] = [s, call]
    poll.register(s, select.POLLOUT)
print("calling", flush=True)
while socks:
    for fd, events in poll.poll():
        s = socks[fd]
        try:
            if events & (select.POLLHUP | select.POLLERR):
                raise BrokenPipeError
            s[1] = s[1][s[0].send(s[1][:4096]):]
            if not s[1]:
                poll.modify(fd, 0)
                print("sent", flush=True)
        except BlockingIOError:
            pass
        except OSError:
            poll.unregister(fd)
            del socks[fd]
            print("cut", flush=True)
'

calls_are() { # PATTERN N
	[ "$(grep -c "$1" "$TMP/calls")" -ge "$2" ]
}

never_reading() {
	local what="eight callers of a thousand calls each that read nothing" cap caller rates

	topology_up 1
	start_nginx
	masquerade plain
	must_start_tsnatd $(how queue)
	capture srv eth0 "$TMP/server.pcap"
	cap=$SPAWNED
	use_every_port ipv4 c1
	masquerade random
	mark
	load ipv4 3 c1
	rates=$RATE
	: >"$TMP/calls"
	"$PYTHON" -c "$NEVER_READ" "$SOCKET" >"$TMP/calls" 2>&1 &
	caller=$!
	PIDS+=("$caller")
	succeeds "$what: they call" wait_for 10 grep -q calling "$TMP/calls"
	load ipv4 3 c1
	rates="$rates $RATE"
	succeeds "$what: others are answered" ctl status
	succeeds "$what: all are cut off" wait_for 120 calls_are cut 8
	load ipv4 3 c1
	note "$what: requests/s before, meanwhile, after: $rates $RATE"
	capture_end "$cap" "$TMP/server.pcap"
	check_capture "$TMP/check.json" "$TMP/server.pcap"
	at_least "$what: connections meanwhile reuse ports" \
		"$(json "$TMP/check.json" reuses)" $((2 * PORTS))
	is "$what: every SYN above its tuple's last TSval, no shift changed" \
		"$(json "$TMP/check.json" violations)" 0
	[ "$(json "$TMP/check.json" violations)" = 0 ] || sed 's/^/#   /' "$TMP/check.json"
	server_refuses_none "$what" "$TMP/check.json" 5
	is "$what: the guardian had nothing to do" "$(stat_of guardian_verdicts)" 0
	is "$what: no SYN passed by for want of room" "$(stat_of queue_dropped)" 0
	end "$caller"
	forget_tsnatd
}

need_daemon
begin
setup
clients
other_users
talk_goes_on 20001
forget_tsnatd
never_reading
finish
