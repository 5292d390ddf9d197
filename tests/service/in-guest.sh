#!/bin/bash
# systemd.sh runs this script in its guest, as root:
#
#	inside (netns)                  the guest itself                     server (netns)
#	c0 10.7.0.2 ------ in0 10.7.0.1 | masquerade | up0 203.0.113.1 ------ s0 203.0.113.2
#
# The server closes first and so keeps TIME_WAIT. NAT has eight ports, and its entries vanish after
# a second. So a second round of connections reuses tuples that the server remembers, with clocks of
# other offsets: about half of these connections begin with a lower timestamp.
failed=0
check() { # TEXT COMMAND...
	local text=$1
	shift
	if "$@"; then
		echo "ok - $text"
	else
		echo "not ok - $text"
		failed=1
	fi
}
not() { ! "$@"; }
within() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.3
	done
}
property() { systemctl show -P "$2" "$1"; }
main_pid() { property tsnatd MainPID; }
is_property() { [ "$(property tsnatd "$1")" = "$2" ]; }
healthy() { # OPTION...: the daemon answers and knows no problem
	local s
	s=$(tsnatctl "$@" status 2>&1) && ! grep '^problem' <<<"$s"
}
status_is() { [ "$(tsnatctl status | sed -n "s/^$1 //p")" = "$2" ]; }
counter() { tsnatctl stats | sed -n "s/^$1 //p"; }
# Count matching log lines of the service, without systemd's own.
log_lines() {
	journalctl -q --no-pager -o cat -u tsnatd _COMM=tsnatd --since "@$mark" | grep -c -- "$1"
}
mark_log() { mark=$(date +%s.%N); }
threads_of() { # PID: scheduling policy and priority of its threads
	for t in /proc/"$1"/task/*; do chrt -p "${t##*/}"; done 2>/dev/null |
		sed -n 's/.*policy: //p; s/.*priority: //p' | xargs
}

# --- the network and the peers ---
cat >peer.py <<'PY'
import socket, sys, threading, time

def serve(port, answer):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    s.listen(64)
    while True:
        c = s.accept()[0]
        threading.Thread(target=answer, args=(c,), daemon=True).start()

def echo(c):
    while data := c.recv(1000):
        c.sendall(data)

def close_first(c):
    c.sendall(b"x")
    c.close()

def connect(port):
    s = socket.create_connection(("203.0.113.2", port), timeout=20)
    while s.recv(100):
        pass
    s.close()

if sys.argv[1] == "serve":
    for port in 8001, 8002, 8003, 8004, 8005:
        threading.Thread(target=serve, args=(port, close_first), daemon=True).start()
    serve(7, echo)
port, rounds, n = map(int, sys.argv[2:])
for r in range(rounds):
    if r:
        time.sleep(2.5)
    for i in range(n):
        connect(port)
PY
ip netns add inside
ip netns add server
ip link add in0 type veth peer name c0 netns inside
ip link add up0 type veth peer name s0 netns server
ip addr add 10.7.0.1/24 dev in0
ip addr add 203.0.113.1/24 dev up0
ip -n inside addr add 10.7.0.2/24 dev c0
ip -n server addr add 203.0.113.2/24 dev s0
for l in "inside lo" "inside c0" "server lo" "server s0"; do
	ip -n "${l% *}" link set "${l#* }" up
done
ip link set in0 up
ip link set up0 up
ip -n inside route add default via 10.7.0.1
sysctl -qw net.ipv4.ip_forward=1
nat() {
	nft 'table ip nat { chain post {
		type nat hook postrouting priority srcnat;
		oifname "up0" ip protocol tcp masquerade to :40000-40007 random;
	}; }'
}
nat
sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_{time_wait,close,last_ack,fin_wait}=1
ip netns exec server python3 peer.py serve &
connections() { ip netns exec inside timeout 60 python3 peer.py connect "$@"; }
# Count segments that the server's timestamp check refused, SYNs among them.
refused() { ip netns exec server sed -n '/^TcpExt:/p' /proc/net/netstat | head -n 2 | awk '
	NR == 1 { for (i = 1; i <= NF; i++) if ($i == "PAWSEstab") n = i } NR == 2 { print $n }'; }
listening() { ip netns exec server ss -Hltn sport = :7 | grep -q .; }
within 20 listening

# --- install ---
# as README says
apt-get install -y -q ./tsnatd.deb >install.log 2>&1 || cat install.log
check "package installs" dpkg-query -W tsnatd
check "installing starts and enables nothing" not systemctl is-active -q tsnatd
check "the user is there, without a shell" grep -q '^tsnatd:.*/nologin$' /etc/passwd
for unit in tsnatd.service tsnatd@.service; do
	score=$(systemd-analyze security --offline=true /lib/systemd/system/$unit 2>/dev/null |
		sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
	check "$unit: systemd-analyze security says $score, below 2.5" \
		awk -v s="$score" 'BEGIN { exit !(s != "" && s < 2.5) }'
done

check "without tsnatd: connections" connections 8001 3 8
before=$(refused)
check "without tsnatd: the server refuses some ($before)" [ "$before" -gt 0 ]

# --- start ---
mark_log
echo 'interfaces = [ "up0" ];' >/etc/tsnatd.conf
check "starts with one line of configuration, and is ready" \
	systemctl enable --now tsnatd 2>enable.log
check "is enabled" systemctl is-enabled -q tsnatd
check "says so in the log" [ "$(log_lines 'policy repair')" = 1 ]
check "watchdog: $(property tsnatd WatchdogUSec)" [ "$(property tsnatd WatchdogUSec)" != 0 ]
check "healthy" healthy
tsnatctl status | sed 's/^/# /'
check "datapath bpf on Debian's kernel" status_is datapath bpf
check "runs as its user" [ "$(stat -c %U /proc/"$(main_pid)")" = tsnatd ]
caps=$(sed -n 's/^CapEff:\t//p' /proc/"$(main_pid)"/status)
check "capabilities: net_admin, bpf, perfmon and no others ($caps)" [ "$caps" = 000000c000001000 ]
check "a thread at SCHED_FIFO 10 ($(threads_of "$(main_pid)"))" status_is realtime yes
guardian=$(pgrep -P "$(main_pid)")
check "the guardian runs ($(cat /proc/"$guardian"/comm))" [ -n "$guardian" ]
check "any user may query" \
	setpriv --reuid nobody --regid nogroup --clear-groups tsnatctl status >/dev/null

before=$(refused)
check "connections" connections 8002 3 8
check "syn_seen $(counter syn_seen), syn_shifted $(counter syn_shifted): some were repaired" \
	[ "$(counter syn_shifted)" -gt 0 ]
check "the server refused none ($before before, $(refused) after)" [ "$(refused)" = "$before" ]
check "SYNs went through the queue ($(counter verdicts) verdicts)" [ "$(counter verdicts)" -gt 0 ]

# --- reload ---
printf 'interfaces = [ "up0" ];\nhold = 200;\npolicy = "unify";\n' >/etc/tsnatd.conf
check "reload with a good file" systemctl reload tsnatd
check "applies it" status_is hold_s 200
# All connections are shifted now. One of them lives from here to the end.
begin_long() {
	exec 6> >(exec ip netns exec inside bash -c 'exec 3<>/dev/tcp/203.0.113.2/7
		while read -r l; do
			echo "$l" >&3
			read -r -t 9 a <&3 && echo "$a" || echo "no answer"
		done' >pong)
}
begin_long
ping() {
	echo "$1" >&6
	within 12 grep -qx -e "$1" -e 'no answer' pong && grep -qx "$1" pong
}
check "a connection begins" ping one
check "it is shifted" [ "$(counter connections_shifted)" = 1 ]

mark_log
pid=$(main_pid)
printf 'interfaces = [ "up0" ];\nhold = "x";\n' >/etc/tsnatd.conf
check "reload with a bad file fails" not systemctl reload tsnatd 2>/dev/null
check "says where and why" [ "$(log_lines '/etc/tsnatd.conf:2: hold: must be a number')" -ge 1 ]
kill -HUP "$pid"
said_it() { [ "$(log_lines 'the old one stays')" = 1 ]; }
check "SIGHUP with a bad file: the log has one line, too" within 10 said_it
check "and ready again" within 5 is_property ActiveState active
check "the old configuration stays" status_is hold_s 200
check "the same process" [ "$(main_pid)" = "$pid" ]

# --- restart ---
starts="$(property tsnatd StartLimitBurst) starts in $(property tsnatd StartLimitIntervalUSec)"
check "at most $starts" is_property StartLimitBurst 5
# Lower limits save time: each start takes seconds under emulation.
mkdir -p /run/systemd/system/tsnatd.service.d
printf '[Unit]\nStartLimitBurst=3\n[Service]\nWatchdogSec=15s\n' \
	>/run/systemd/system/tsnatd.service.d/test.conf
systemctl daemon-reload
systemctl reset-failed tsnatd
printf 'interfaces = [ "up0" ];\n' >/etc/tsnatd.conf
systemctl restart tsnatd
check "restart: healthy" healthy
check "restart: another process" [ "$(main_pid)" != "$pid" ]
check "restart: the connection lives, still shifted" ping two
check "restart: shift and record are still there" [ "$(counter connections_shifted)" = 1 ]

# --- the gap of a restart ---
# The next start waits for a file, so that the gap is long enough for the checks.
cat >/run/systemd/system/tsnatd.service.d/gap.conf <<'EOT'
[Service]
ExecStartPre=/bin/sh -c "until [ -e /run/go ]; do sleep 0.2; done"
TimeoutStartSec=180s
EOT
systemctl daemon-reload
waiting() { awk '{ n += $3 } END { print n + 0 }' /proc/net/netfilter/nfnetlink_queue; }
syn_waits() { [ "$(waiting)" -ge 1 ]; }
rules_there() { nft list table ip tsnatd >/dev/null 2>&1; }
gap_begins() { # COMMAND...: ends the daemon, so that systemd starts it again
	systemctl reset-failed tsnatd
	rm -f /run/go
	"$@"
	within 60 is_property SubState start-pre
}
gap_ends() {
	touch /run/go
	within 120 is_property ActiveState active
}

# is_held TEXT: a connection begins in the gap, and is made after it.
#
# No other connection uses its port. The server may remember timestamps of connections that began
# while tsnatd did not run, and so refuse the first SYN. If that SYN waited together with its
# retransmission, the client's reset would meet the connection of the second SYN, and conntrack
# would end it.
is_held() {
	connections 8005 1 1 &
	check "$1: the SYN waits" within 20 syn_waits
	check "$1: ends" gap_ends
	check "$1: the connection is made" wait $!
	echo "# $(counter verdicts) SYNs decided, $(counter guardian_verdicts) passed undecided"
}
restart_begins() { systemctl restart --no-block tsnatd; }

check "restart_gap bypass: nothing is kept" is_property NFileDescriptorStore 0
check "restart_gap bypass: begins" gap_begins restart_begins
check "restart_gap bypass: no rules" not rules_there
check "restart_gap bypass: a connection is made meanwhile" connections 8001 1 1
check "restart_gap bypass: ends" gap_ends

echo 'restart_gap = "wait";' >>/etc/tsnatd.conf
check "restart_gap wait: by a reload" systemctl reload tsnatd
kept() { [ "$(property tsnatd NFileDescriptorStore)" = "$(nproc)" ]; }
check "restart_gap wait: a queue for each processor is kept" within 10 kept
check "restart_gap wait: restart begins" gap_begins restart_begins
check "restart_gap wait: the rules stay" rules_there
is_held "restart_gap wait: restart"
check "restart_gap wait: healthy" healthy
kill_it() { kill -KILL "$(main_pid)"; }
check "restart_gap wait: crash, restart begins" gap_begins kill_it
is_held "restart_gap wait: crash"
check "restart_gap wait: healthy again" healthy
check "restart_gap wait: the connection from before lives" ping wait

check "restart_gap wait: stop" systemctl stop tsnatd
check "restart_gap wait: stop: nothing is kept" within 10 is_property NFileDescriptorStore 0
check "restart_gap wait: stop: no rules" not rules_there
check "restart_gap wait: stop: no queue is bound" \
	[ -z "$(cat /proc/net/netfilter/nfnetlink_queue)" ]
check "restart_gap wait: stop: a connection is made" connections 8001 1 1
rm /run/systemd/system/tsnatd.service.d/gap.conf
systemctl daemon-reload
printf 'interfaces = [ "up0" ];\n' >/etc/tsnatd.conf
systemctl start tsnatd
check "starts without it" healthy

# --- crash ---
pid=$(main_pid)
kill -KILL "$pid"
check "SIGKILL: restarted" within 60 healthy
check "SIGKILL: the connection lives" ping three

# --- others flush everything ---
nft flush ruleset
check "nft flush ruleset: the rules come back" within 10 rules_there
nat

# --- hang ---
systemctl reset-failed tsnatd
pid=$(main_pid)
restarts=$(property tsnatd NRestarts)
kill -STOP "$pid"
stopped=$SECONDS
sleep 1
check "SIGSTOP: new connections get through" connections 8003 1 1
# The instance in another namespace works meanwhile.
echo 'interfaces = [ "s0" ]; restart_gap = "wait";' >/etc/tsnatd/server.conf
check "tsnatd@server starts" systemctl start tsnatd@server
check "tsnatd@server is healthy" healthy --socket /run/tsnatd-server/io.tsnatd.Gateway
check "tsnatd@server is in its namespace" \
	[ "$(ip netns identify "$(property tsnatd@server MainPID)")" = server ]
check "tsnatd@server has its own pins" [ "$(ls /sys/fs/bpf/tsnatd-server | wc -l)" -gt 0 ]
rules_of_server() { ip netns exec server nft list table ip tsnatd >/dev/null 2>&1; }
check "tsnatd@server has its own rules" rules_of_server
systemctl stop tsnatd@server
check "tsnatd@server stops: its rules are removed, as no start follows" not rules_of_server
systemctl start tsnatd@server
restarted() {
	[ "$(property tsnatd NRestarts)" -gt "$restarts" ] && is_property ActiveState active
}
check "SIGSTOP: the watchdog ends and restarts it" within 60 restarted
echo "# at most $((SECONDS - stopped)) s after SIGSTOP"
check "healthy again" healthy
check "the connection lives" ping four

# --- metrics ---
cp /usr/share/doc/tsnatd/examples/prometheus/tsnatd-* /etc/systemd/system
mkdir -p /var/lib/prometheus/node-exporter
systemctl daemon-reload
check "tsnatd-textfile.service" systemctl start tsnatd-textfile.service
check "writes counters" \
	grep -q '^tsnatd_syn_seen_total [0-9]' /var/lib/prometheus/node-exporter/tsnatd.prom
systemctl start tsnatd-metrics.socket
exec 4<>/dev/tcp/127.0.0.1/9674
printf 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n' >&4
timeout 20 cat <&4 >answer
exec 4>&-
check "tsnatd-metrics.socket answers" [ "$(head -n 1 answer)" = $'HTTP/1.1 200 OK\r' ]
length=$(tr -d '\r' <answer | sed -n 's/^Content-Length: //p')
check "Content-Length is right ($length)" [ "$(sed '1,/^\r$/d' answer | wc -c)" = "$length" ]
check "with all metrics" [ "$(tail -n 1 answer)" = "# EOF" ]
systemctl stop tsnatd-metrics.socket
rm -r /etc/systemd/system/tsnatd-* /var/lib/prometheus
systemctl daemon-reload

# --- stop ---
systemctl stop tsnatd
check "stop: clean" is_property Result success
check "stop: no nft table of ours" [ -z "$(nft list tables | grep tsnatd)" ]
check "stop: no socket" [ ! -e /run/tsnatd/io.tsnatd.Gateway ]
check "stop: the live connection keeps its shift" ping five

# --- a queue in use, or a bad file, causes no restart loop ---
tsnatd -i in0 --rules none --runtime-dir /run/other --state-dir /run/other \
	--pin-dir /sys/fs/bpf/other 2>/dev/null &
other=$!
there() { [ -e /run/other/io.tsnatd.Gateway ]; }
within 10 there
systemctl reset-failed tsnatd 2>/dev/null
mark_log
check "queue taken: does not start" not systemctl start tsnatd 2>/dev/null
sleep 2 # four times RestartSec=
tries() { echo "$(property tsnatd NRestarts) $(property tsnatd ActiveState)"; }
check "queue taken: one try" [ "$(tries)" = "0 failed" ]
check "queue taken: its own exit status" is_property ExecMainStatus 3
said_taken() { [ "$(log_lines 'queue 5150 is taken by another program')" = 1 ]; }
check "queue taken: one log line" within 10 said_taken
kill $other
wait $other
systemctl reset-failed tsnatd
mark_log
echo 'interfaces = "up0";' >/etc/tsnatd.conf
check "bad file: does not start" not systemctl start tsnatd 2>/dev/null
sleep 2
check "bad file: one try" [ "$(tries)" = "0 failed" ]
systemctl reset-failed tsnatd
echo 'interfaces = [ "up0" ];' >/etc/tsnatd.conf
check "starts again when it can" systemctl start tsnatd

# --- the other datapath ---
tsnatd_begins() { # LINES-OF-CONFIGURATION: without programs of the other datapath
	systemctl stop tsnatd
	tsnatd --cleanup
	printf "$1" >/etc/tsnatd.conf
	# systemd counts the starts of an enabled unit in the last minute
	systemctl reset-failed tsnatd
	systemctl start tsnatd
}
# the first connection ends
exec 6>&-
tsnatd_begins 'interfaces = [ "up0" ];\ndatapath = "queue";\n'
check "datapath queue: healthy" healthy
check "datapath queue: status agrees" status_is datapath queue
before=$(refused)
check "datapath queue: connections" connections 8004 3 8
check "datapath queue: $(counter syn_shifted) repaired" [ "$(counter syn_shifted)" -gt 0 ]
check "datapath queue: the server refused none ($before before, $(refused) after)" \
	[ "$(refused)" = "$before" ]
echo 'policy = "unify";' >>/etc/tsnatd.conf
systemctl reload tsnatd
begin_long
check "datapath queue: a shifted connection" ping six
systemctl restart tsnatd
check "datapath queue: lives over a restart" ping seven
systemctl stop tsnatd
systemctl start tsnatd
check "datapath queue: lives over stop and start" ping eight

# --- remove and purge ---
exec 6>&-
rm -rf /sys/fs/bpf/other
apt-get purge -y -q tsnatd >purge.log 2>&1 || cat purge.log
check "purge" [ -z "$(dpkg-query -W -f '${Status}' tsnatd 2>/dev/null)" ]
left=$(find / -xdev -not -path '/proc/*' -not -path '/guest/*' -not -path '/run/other*' \
	-not -path '/sys/*' -name '*tsnatd*'; ls -d /sys/fs/bpf/tsnatd* /run/tsnatd* 2>/dev/null)
check "purge: no file is left ($(echo $left))" [ -z "$left" ]
check "purge: no user is left" not getent passwd tsnatd
check "purge: no nft table is left" [ -z "$(nft list tables | grep tsnatd)" ]
filters=$(for h in egress ingress; do
	tc filter show dev in0 $h
	tc filter show dev up0 $h
	nsenter --net=/run/netns/server tc filter show dev s0 $h
done | grep tsnat_)
check "purge: no tc filter is left ($(echo $filters))" [ -z "$filters" ]
check "purge: no process is left" not pgrep tsnatd
echo "# up $(cut -d. -f1 /proc/uptime) s"
exit $failed
