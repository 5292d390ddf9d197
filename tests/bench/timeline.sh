#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeline.sh - a picture of connections and refused SYNs over time, with tsnatd started in the
# middle.
#
#	tests/bench/timeline.sh FILE.svg
#
# The demo's case of one client: one client behind MASQUERADE --random-fully, 8 000 external ports, for
# each of which the server holds a TIME_WAIT. tsnatd starts with an empty table, so it learns the
# server's clock for a tuple from the first refusal. The numbers are the server's counters, read
# twice a second; they go to stdout, too.

. "$(dirname "$0")/../netns/lib.sh"

BEFORE=10 # seconds without tsnatd
AFTER=15
PERIOD=0.5

sample() { # FILE: time, connections and refused SYNs so far
	spawn srv "$1" "$PYTHON" -c '
import sys, time

def counters():
    values = {}
    for path in "/proc/self/net/snmp", "/proc/self/net/netstat":
        lines = open(path).read().splitlines()
        for names, numbers in zip(lines[::2], lines[1::2]):
            values.update(zip(names.split()[1:], map(int, numbers.split()[1:])))
    return values["PassiveOpens"], values.get("PAWSTimewait", values["PAWSEstab"])

start = time.monotonic()
while True:
    print("%.3f %d %d" % (time.monotonic() - start, *counters()), flush=True)
    time.sleep(float(sys.argv[1]))
' $PERIOD
}

picture() { # SVG DATA STARTED
	gnuplot <<-END
		set terminal svg size 720,300 dynamic background "white" font "sans-serif,12"
		set output "$1"
		set xlabel "seconds"
		set ylabel "per second"
		set yrange [0:*]
		set grid ytics lc rgb "#dddddd"
		set border 3 lc rgb "#888888"
		set tics nomirror
		set key top left
		set arrow from $3, graph 0 to $3, graph 1 nohead dt 2 lc rgb "#444444"
		set label "tsnatd starts" at $3, graph 0.5 offset 1,0 tc rgb "#444444"
		plot "$2" using 1:2 with lines lw 2 lc rgb "#1b7837" title "connections", \
			"$2" using 1:3 with lines lw 2 lc rgb "#b2182b" title "refused SYNs"
	END
}

[ $# = 1 ] || die "usage: timeline.sh FILE.svg"
command -v gnuplot >/dev/null || die "gnuplot is missing"
need_daemon
begin
topology_up 1
timestamps 1 c1
client_ports $LOW $HIGH c1
start_nginx
use_every_port ipv4 c1
masquerade random
sample "$TMP/samples"
sampler=$SPAWNED
spawn c1 /dev/null wrk -t1 -c100 -d$((BEFORE + AFTER + 1)) --timeout 10 -H 'Connection: close' \
	"$(url ipv4)"
sleep $BEFORE
must_start_tsnatd
started=$(tail -n 1 "$TMP/samples" | cut -d' ' -f1)
sleep $AFTER
end "$sampler"
awk 'NR > 1 && $1 > t { print ($1 + t) / 2, ($2 - n) / ($1 - t), ($3 - r) / ($1 - t) }
	{ t = $1; n = $2; r = $3 }' "$TMP/samples" | tee "$TMP/rates"
picture "$1" "$TMP/rates" "$started"
forget_tsnatd
