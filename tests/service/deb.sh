#!/bin/bash
# The Debian package: its contents; and installing and removing it leaves nothing behind in a chroot
# of Debian 12, where no systemd runs.
set -u
cd "$(dirname "$0")/../.."
. tests/service/lib.sh

for p in debootstrap dpkg-buildpackage dh; do
	command -v $p >/dev/null || { echo "not ok - $p is missing (tests/deps.sh)"; exit 1; }
done
package=$(fresh_package) || { echo "not ok - make deb"; exit 1; }
echo "ok - make deb: ${package##*/}"
version=$(build/tsnatd --version | cut -d' ' -f2)
check "the version is tsnatd's" [ "$(dpkg-deb -f "$package" Version)" = "$version-1" ]
for library in libbpf1 libnftnl11 libnetfilter-queue1 libsystemd0 libconfig9 libjson-c5; do
	check "depends on $library" grep -q "\b$library\b" <(dpkg-deb -f "$package" Depends)
done
conffiles=$(dpkg-deb --ctrl-tarfile "$package" | tar xO ./conffiles)
check "/etc/tsnatd.conf is a configuration file" [ "$conffiles" = /etc/tsnatd.conf ]
if command -v lintian >/dev/null; then
	errors=$(lintian --allow-root --fail-on error "$package" 2>&1) || echo "$errors"
	check "lintian finds no error" [ -z "$(grep '^E:' <<<"$errors")" ]
else
	echo "ok - lintian # SKIP no lintian"
fi

base=$(tests/service/guest.sh --root) || { echo "not ok - no root of Debian 12"; exit 1; }
root=$(mktemp -d "$PWD/build/vm/chroot.XXXXXX")
trap 'rm -rf "$root"' EXIT
cp -a --reflink=auto "$base/." "$root"
cp "$package" "$root/tsnatd.deb"
in_root() { LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
# All files except for logs and the data of package tools
files() {
	( cd "$root" && find . -path ./var/lib/dpkg -prune -o -path ./var/log -prune \
		-o -path ./var/cache -prune -o -print | sort )
}
quiet() { "$@" >"$root/log" 2>&1 || { cat "$root/log"; return 1; }; }
: >"$root/log"

files >"$root/before" && files >"$root/before"
users=$(grep -v '^tsnatd:' "$root/etc/passwd" | cksum)
check "installs" quiet in_root dpkg -i /tsnatd.deb
check "makes the user" in_root getent passwd tsnatd
check "tsnatd runs" in_root tsnatd --version
check "the configuration is valid" in_root tsnatd --check
for unit in tsnatd.service tsnatd@.service; do
	check "$unit is there" [ -e "$root/lib/systemd/system/$unit" ]
done
check "none is enabled" [ -z "$(find "$root/etc/systemd" -name 'tsnatd*')" ]
in_root systemctl enable -q tsnatd.service
enabled=$root/etc/systemd/system/multi-user.target.wants/tsnatd.service
check "can be enabled" [ -L "$enabled" ]
check "installs over itself" quiet in_root dpkg -i /tsnatd.deb
check "and stays enabled" [ -L "$enabled" ]
mkdir -p "$root/var/lib/tsnatd" "$root/var/lib/tsnatd-lan"
echo 'hold = 400;' >>"$root/etc/tsnatd.conf"
touch "$root/var/lib/tsnatd/state" "$root/etc/tsnatd/lan.conf"
check "is removed" quiet in_root dpkg -r tsnatd
for kept in etc/tsnatd.conf etc/tsnatd/lan.conf var/lib/tsnatd/state; do
	check "which keeps $kept" [ -e "$root/$kept" ]
done
check "is purged" quiet in_root dpkg -P tsnatd
files >"$root/after"
check "which leaves no new file" diff "$root/before" <(grep -vx ./after "$root/after")
check "and no user" not grep -q tsnatd "$root/etc/passwd" "$root/etc/group" "$root/etc/shadow"
check "all other users are there" [ "$(cksum <"$root/etc/passwd")" = "$users" ]
exit $failed
