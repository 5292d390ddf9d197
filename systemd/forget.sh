#!/bin/sh
# Remove from this system what "make uninstall" cannot know: enabled services, rules, programs and
# maps in the kernel (live shifts end here), the state, and the user.
#
#	forget.sh PATH-OF-TSNATD SYSCONFDIR
set -u
tsnatd=$1 sysconfdir=$2

# Remove everything that the daemon whose directories end in SUFFIX left. COMMAND runs tsnatd.
forget() { # SUFFIX COMMAND...
	suffix=$1
	shift
	# without a state directory, that daemon never ran
	[ -d "/var/lib/tsnatd$suffix" ] || return 0
	"$@" --runtime-dir "/run/tsnatd$suffix" --pin-dir "/sys/fs/bpf/tsnatd$suffix" --cleanup
	rm -rf "/sys/fs/bpf/tsnatd$suffix" "/run/tsnatd$suffix" "/var/lib/tsnatd$suffix"
}

if [ -d /run/systemd/system ]; then
	instances=$(systemctl list-units -q --plain --no-legend --all 'tsnatd@*.service' |
		cut -d' ' -f1)
	for unit in tsnatd.service $instances; do
		systemctl disable -q --now "$unit"
	done
fi
forget "" "$tsnatd"
for conf in "$sysconfdir"/tsnatd/*.conf; do
	[ -e "$conf" ] || continue
	name=${conf##*/}
	name=${name%.conf}
	# "ip netns exec" would mount another /sys, without the pins
	forget "-$name" nsenter --net="/run/netns/$name" "$tsnatd" -c "$conf"
done
! getent passwd tsnatd >/dev/null || userdel tsnatd
