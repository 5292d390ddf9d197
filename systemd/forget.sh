#!/bin/sh
# Undo on this system what no package manager knows of: the services, what the daemon keeps in the kernel (live shifts end
# here), its state and its user.
#
#	forget.sh PATH-OF-TSNATD SYSCONFDIR
set -u
tsnatd=$1 sysconfdir=$2

forget() { # SUFFIX [COMMAND...]: what the daemon with these directories left; COMMAND runs tsnatd
	suffix=$1
	shift
	[ -d "/var/lib/tsnatd$suffix" ] || return 0 # it never ran
	"$@" --runtime-dir "/run/tsnatd$suffix" --pin-dir "/sys/fs/bpf/tsnatd$suffix" --cleanup
	rm -rf "/sys/fs/bpf/tsnatd$suffix" "/run/tsnatd$suffix" "/var/lib/tsnatd$suffix"
}

if [ -d /run/systemd/system ]; then
	for unit in tsnatd.service $(systemctl list-units -q --plain --no-legend --all 'tsnatd@*.service' | cut -d' ' -f1); do
		systemctl disable -q --now "$unit"
	done
fi
forget "" "$tsnatd"
for conf in "$sysconfdir"/tsnatd/*.conf; do
	[ -e "$conf" ] || continue
	name=${conf##*/}
	name=${name%.conf}
	# not by "ip netns exec", which has a /sys of its own, without our pins
	forget "-$name" nsenter --net="/run/netns/$name" "$tsnatd" -c "$conf"
done
! getent passwd tsnatd >/dev/null || userdel tsnatd
