#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# debian-6.1.sh - runs the built programs on Debian 12's kernel, in an emulated machine.
#
#	tests/vm/debian-6.1.sh [-s] [KERNEL]
#
# A kernel that is neither there nor can be downloaded is a failure; with -s the test is skipped then.
#
# KERNEL is a package for apt-get download, or a folder with an unpacked one. The default, linux-image-amd64, stands for the newest
# one of the release. Downloaded kernels stay below build/vm/kernel; remove one there to get a newer one.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${B:-$here/../../build}
offline=die
if [ "${1:-}" = -s ]; then
	offline=skip
	shift
fi
wanted=${1:-linux-image-amd64}

modules="nf_tables nft_queue nft_ct nft_nat nft_masq nft_chain_nat nf_conntrack nf_conntrack_netlink nfnetlink_queue
	crc32c_generic veth tun sch_ingress cls_bpf 8021q nf_flow_table nf_flow_table_inet nft_flow_offload"

die() { printf 'not ok - %s\n' "$*"; exit 1; }
skip() { printf "ok - Debian's kernel # SKIP %s\n" "$*"; exit 77; }
apt() { apt-get -qq -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "$@"; }

# A metapackage depends on the package that contains the kernel.
package_of() { # PACKAGE
	apt-cache depends "$1" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | grep . || echo "$1"
}

download() { # prints the package's name; the package goes to the current folder
	local package

	package=$(package_of "$wanted")
	if ! apt download "$package" 2>download.log; then
		# The list of packages may be older than the mirror's, or missing.
		[ "$(id -u)" != 0 ] || apt update >>download.log 2>&1
		package=$(package_of "$wanted")
		apt download "$package" 2>>download.log || return
	fi
	echo "$package"
}

fetch() ( # DIR: the kernel, without modules that no test needs
	set -e
	new=$1.new
	trap 'rm -rf "$new"' EXIT
	rm -rf "$new"
	mkdir "$new"
	cd "$new"
	command -v apt-get >/dev/null || die "no apt-get to download $wanted with: give a folder with an unpacked kernel"
	package=$(download) || $offline "cannot download $wanted: $(tail -n 1 download.log)"
	# Newer releases split the kernel into packages.
	for part in binary modules; do
		apt download "linux-$part-${package#linux-image-}" 2>>download.log || true
	done
	for deb in *.deb; do
		dpkg-deb --fsys-tarfile "$deb" |
			tar -x --exclude='*/kernel/sound' --exclude='*/kernel/fs' --exclude='*/kernel/drivers/[!n]*'
		rm "$deb"
	done
	mv "$new" "$1"
)

for program in tsnatd tsnatctl; do
	[ -x "$build/$program" ] || die "there is no $build/$program: run make first"
done
build=$(cd "$build" && pwd)
vm=$build/vm
mkdir -p "$vm/kernel"
kernel=$wanted
if [ ! -d "$kernel" ]; then
	kernel=$vm/kernel/$wanted
	if [ ! -d "$kernel" ]; then
		set +e
		fetch "$kernel"
		status=$?
		set -e
		[ $status != 77 ] || exit 0
		[ $status = 0 ] || exit $status
	fi
fi
${CC:-gcc} -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -static -o "$vm/peer" "$here/peer.c"

status=0
for guest in guest guest-queue; do
	"$here/kvmtest.sh" -k "$kernel" -o "$vm/guest" -t 600 -m "$modules" \
		-b "nft ip tc nsenter setpriv $vm/peer $build/tsnatd $build/tsnatctl" \
		-f "$here/guest-lib.sh $here/../../conf/tsnatd-queue.nft" "$here/$guest.sh" || status=$?
done
exit $status
