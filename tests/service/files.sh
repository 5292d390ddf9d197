#!/bin/bash
# Documents, completions, units and examples agree with the programs. uninstall removes everything
# that install makes.
set -u
cd "$(dirname "$0")/../.."
. tests/service/lib.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
make -s all units || { echo "not ok - build"; exit 1; }

words() { sort -u | xargs; }
# Words that a program knows: the options at the beginning of a line of its --help, the keys in the
# table of options, the subcommands of tsnatctl
long_options() {
	"$1" --help | grep -oE '^ +(-[a-z], )?--[a-z-]+(, --[a-z-]+)?' | grep -oE -e '--[a-z-]+' |
		words
}
keys() { sed -n 's/^\t{ "\([a-z_]*\)", OPTION_.*/\1/p' daemon/config/config.c | words; }
subcommands() {
	build/tsnatctl --help | sed -n '/^Subcommands/,/^$/s/^  \([a-z]*\) .*/\1/p' | words
}
contains_all() { # FILE WORD...
	local file=$1 w ok=0
	shift
	for w in "$@"; do
		grep -q -e "$w" "$file" || { echo "# $file has no $w"; ok=1; }
	done
	return $ok
}
contains_options() { # MANUAL-PAGE OPTION...: in roff, "--x" is "\-x"
	local page=$1
	shift
	contains_all "$page" $(printf '%s\n' "$@" | sed 's/^--/\\\\-/')
}

# --- configuration ---
sed 's/^#\([a-z_]* = \)/\1/' conf/tsnatd.conf >"$tmp/all.conf"
conf_keys=$(sed -n 's/^\([a-z_]*\) = .*/\1/p' "$tmp/all.conf" | words)
check "tsnatd.conf has every key" [ "$conf_keys" = "$(keys)" ]
check "tsnatd.conf is valid" build/tsnatd -c conf/tsnatd.conf --check
echo 'restart_gap = "hold";' >"$tmp/old.conf"
check "an earlier name of a value is valid" build/tsnatd -c "$tmp/old.conf" --check 2>"$tmp/notice"
check "and gets one notice" [ "$(cat "$tmp/notice")" = \
	"$tmp/old.conf:1: restart_gap: \"hold\" is now called \"wait\"" ]
gcc -D_GNU_SOURCE -Idaemon -o "$tmp/defaults" tests/service/conf-defaults.c \
	daemon/config/config*.c daemon/base/log.c -lconfig
check "tsnatd.conf shows the defaults" "$tmp/defaults" "$tmp/all.conf"
sed 's/hold = 300/hold = 301/' "$tmp/all.conf" >"$tmp/other.conf"
check "(and the check would notice)" not "$tmp/defaults" "$tmp/other.conf"

# --- manual pages ---
for page in daemon/tsnatd.8 daemon/tsnatd.conf.5 daemon/tsnatctl.1; do
	if command -v mandoc >/dev/null; then
		check "$page: mandoc -Tlint" mandoc -Tlint -W warning "$page"
	else
		echo "ok - $page: mandoc -Tlint # SKIP no mandoc"
	fi
	warnings=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null)
	check "$page: man --warnings" [ -z "$warnings" ]
done
check "tsnatd(8) has every option" contains_options daemon/tsnatd.8 $(long_options build/tsnatd)
page_keys=$(sed -n 's/^\.It Ic \([a-z_]*\) No = .*/\1/p' daemon/tsnatd.conf.5 | words)
check "tsnatd.conf(5) has every key" [ "$page_keys" = "$(keys)" ]
check "tsnatctl(1) has every option" \
	contains_options daemon/tsnatctl.1 $(long_options build/tsnatctl)
page_subcommands=$(sed -n 's/^\.It Cm \([a-z]*\)$/\1/p' daemon/tsnatctl.1 | words)
check "tsnatctl(1) has every subcommand" [ "$page_subcommands" = "$(subcommands)" ]

# --- completions ---
complete_words() { # PROGRAM WORD...: print the completions of the last word
	bash -c '
		_init_completion() {
			cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
			words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
		}
		_filedir() { COMPREPLY=(FILES); }
		_available_interfaces() { COMPREPLY=(INTERFACES); }
		. contrib/bash-completion/$1
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_$1
		printf "%s\n" "${COMPREPLY[@]}"' _ "$@" | words
}
check "completion: options of tsnatd" \
	[ "$(complete_words tsnatd --)" = "$(long_options build/tsnatd)" ]
check "completion: options of tsnatctl" \
	[ "$(complete_words tsnatctl --)" = "$(long_options build/tsnatctl)" ]
check "completion: subcommands" [ "$(complete_words tsnatctl '')" = "$(subcommands)" ]
check "completion: one subcommand" [ -z "$(complete_words tsnatctl status '')" ]
check "completion: values" [ "$(complete_words tsnatd --policy r)" = repair ]
check "completion: interfaces" [ "$(complete_words tsnatd -i '')" = INTERFACES ]

# --- units ---
for unit in tsnatd.service tsnatd@.service; do
	score=$(systemd-analyze security --offline=true "build/systemd/$unit" 2>/dev/null |
		sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
	if ! command -v systemd-analyze >/dev/null; then
		echo "ok - $unit: security # SKIP no systemd-analyze"
	else
		check "$unit: systemd-analyze security says $score, below 2.5" \
			awk -v s="$score" 'BEGIN { exit !(s != "" && s < 2.5) }'
	fi
	check "$unit: nothing is left to fill in" not grep -q '@[a-z]*@' "build/systemd/$unit"
done

# --- install and uninstall ---
installs() { # NAME MAKE-ARGUMENT...: install, then uninstall, which leaves nothing
	local name=$1 left
	shift
	make -s install DESTDIR="$tmp/root" "$@" || return 1
	find "$tmp/root" -type f -printf '%P\n' | sort >"$tmp/$name.files"
	make -s uninstall DESTDIR="$tmp/root" "$@"
	left=$(find "$tmp/root" -mindepth 1)
	[ -z "$left" ] || { echo "$left" >&2; return 1; }
}
check "install and uninstall" installs default
check "in /usr and /etc" contains_all "$tmp/default.files" '^usr/sbin/tsnatd$' \
	'^usr/bin/tsnatctl$' '^etc/tsnatd.conf$' '^usr/lib/systemd/system/tsnatd@.service$' \
	'^usr/lib/sysusers.d/tsnatd.conf$' '^usr/share/man/man5/tsnatd.conf.5$'
check "with another PREFIX" installs local PREFIX=/usr/local SYSCONFDIR=/usr/local/etc
check "everything is below it" not grep -qv '^usr/local/' "$tmp/local.files"
check "the unit starts tsnatd from there" grep -q \
	'^ExecStart=/usr/local/sbin/tsnatd -c /usr/local/etc/tsnatd.conf ' \
	build/systemd/tsnatd.service
check "tsnatd looks there for its configuration" \
	grep -q ' /usr/local/etc/tsnatd.conf, if it exists' <(build/tsnatd --help)
check "its manual page, too" grep -q '^\.Pa /usr/local/etc/tsnatd.conf$' build/man/tsnatd.8
make -s install DESTDIR="$tmp/root"
check "and in the usual place when it is made again" \
	grep -q ' /etc/tsnatd.conf, if it exists' <(build/tsnatd --help)
echo 'hold = 400;' >"$tmp/root/etc/tsnatd.conf"
make -s install DESTDIR="$tmp/root"
check "an edited configuration outlives an install" grep -q 400 "$tmp/root/etc/tsnatd.conf"
make -s uninstall DESTDIR="$tmp/root" >/dev/null
check "and an uninstall, as the only file" \
	[ "$(find "$tmp/root" -type f -printf '%P')" = etc/tsnatd.conf ]

# --- examples ---
# The metrics that tsnatctl can print, from the lists of counters and gauges and ctl_metrics.c
known() {
	sed -n 's/^\tX([0-9]*, [A-Z_]*, \([a-z_]*\), .*/tsnatd_\1_total/p' daemon/core/counters.h
	sed -n 's/^\t\(X\|LAST\)([A-Z_]*, \([a-z_]*\), .*/tsnatd_\2/p' \
		daemon/varlink/gateway_names.h
	sed -n 's/.*print_\(gauge\|family\)("\([a-z_]*\)".*/tsnatd_\2/p' daemon/ctl/ctl_metrics.c
}
grep -o 'tsnatd_[a-z_]*' contrib/grafana/tsnatd.json | sort -u >"$tmp/shown"
check "the dashboard shows $(wc -l <"$tmp/shown") metrics, all of them known" \
	[ -z "$(known | sort -u | comm -23 "$tmp/shown" -)" ]
check "the dashboard is JSON" python3 -m json.tool contrib/grafana/tsnatd.json /dev/null
if python3 -c 'import yaml' 2>/dev/null; then
	check "the daemonset is YAML" python3 -c '
import yaml
list(yaml.safe_load_all(open("contrib/kubernetes/daemonset.yaml")))'
else
	echo "ok - the daemonset is YAML # SKIP no python3-yaml"
fi
cat >"$tmp/open" <<'EOT'
# TYPE tsnatd_a counter
# HELP tsnatd_a of a
tsnatd_a_total 1
# TYPE tsnatd_b info
# HELP tsnatd_b x
tsnatd_b_info{v="1"} 1
# TYPE tsnatd_c_seconds gauge
# UNIT tsnatd_c_seconds seconds
# HELP tsnatd_c_seconds y
tsnatd_c_seconds 2
# EOF
EOT
cat >"$tmp/text" <<'EOT'
# TYPE tsnatd_a_total counter
# HELP tsnatd_a_total of a
tsnatd_a_total 1
# TYPE tsnatd_b_info gauge
# HELP tsnatd_b_info x
tsnatd_b_info{v="1"} 1
# TYPE tsnatd_c_seconds gauge
# HELP tsnatd_c_seconds y
tsnatd_c_seconds 2
EOT
check "metrics.awk: OpenMetrics becomes Prometheus' text" \
	diff <(awk -f contrib/prometheus/metrics.awk "$tmp/open") "$tmp/text"
exit $failed
