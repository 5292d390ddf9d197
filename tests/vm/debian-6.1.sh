#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# debian-6.1.sh - the emulated-kernel test: what was built, on the kernel of Debian 12, and so on a distribution's kernel.
#
#	tests/vm/debian-6.1.sh [-s] [KERNEL]
#
# With -s it is skipped, and says so, where the kernel is not there and cannot be downloaded; else that is a failure.
#
# KERNEL is a package for apt-get download, or a folder with an unpacked one. The default, linux-image-amd64, stands for the newest
# one of the release. What was downloaded stays below build/vm; to get a newer one, remove it there.
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

# A metapackage has no kernel, but the name of the package that has it.
package_of() { # PACKAGE
	apt-cache depends "$1" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | grep . || echo "$1"
}

download() { # prints the package's name; the package goes to the current folder
	local package

	package=$(package_of "$wanted")
	if ! apt download "$package" 2>download.log; then
		# the list of packages is older than the mirror, or not there at all
		[ "$(id -u)" != 0 ] || apt update >>download.log 2>&1
		package=$(package_of "$wanted")
		apt download "$package" 2>>download.log || return
	fi
	echo "$package"
}

fetch() ( # DIR: the kernel, without what no test needs
	set -e
	new=$1.new
	trap 'rm -rf "$new"' EXIT
	rm -rf "$new"
	mkdir "$new"
	cd "$new"
	command -v apt-get >/dev/null || die "no apt-get to download $wanted with: give a folder with an unpacked kernel"
	package=$(download) || $offline "cannot download $wanted: $(tail -n 1 download.log)"
	# newer kernels come in parts
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
