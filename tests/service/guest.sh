#!/bin/bash
# Boot Debian 12 with its own kernel and systemd under emulation (no root image, no loop device, no
# KVM), run a script in it after basic.target, and exit with the script's status.
#
#	guest.sh [-t SECONDS] [-f FILE:PATH]... [-o CONSOLE-LOG] SCRIPT
#	guest.sh --root		only make the root, and print its path
#
# Root and kernel are downloaded from the package archive once, and stay below build/vm until "make
# clean". The guest's root is its initramfs, so no change to it persists.
set -euo pipefail
cd "$(dirname "$0")/../.."
vm=$PWD/build/vm
limit=300 files=() console=
die() { echo "guest.sh: $*" >&2; exit 99; }

# The dependencies of tsnatd, Python for client and server, and the tools of the checks
packages=systemd-sysv,kmod,iproute2,nftables,python3-minimal,libpython3-stdlib,util-linux,procps
packages+=,libbpf1,libmnl0,libnftnl11,libnetfilter-queue1,libnetfilter-conntrack3,libconfig9
packages+=,libjson-c5

# Add the kernel to the root, with its network modules only.
add_kernel() { # ROOT
	local package version
	package=$(apt-cache depends linux-image-cloud-amd64 |
		awk '/Depends: linux-image/ { print $2; exit }')
	[ -n "$package" ] ||
		die "the package lists have no linux-image-cloud-amd64 (apt-get update)"
	( cd "$vm" && apt-get -o APT::Sandbox::User=root download "$package" >/dev/null ) ||
		die "cannot download $package"
	mkdir "$1/kernel"
	dpkg -x "$vm/$package"_*.deb "$1/kernel"
	rm "$vm/$package"_*.deb
	mv "$1"/kernel/boot/vmlinuz-* "$1/boot/vmlinuz"
	version=$(ls "$1/kernel/lib/modules")
	( cd "$1/kernel/lib/modules/$version" &&
		find kernel -name '*.ko' ! -path 'kernel/net/*' ! -path 'kernel/lib/*' \
			! -path 'kernel/crypto/*' ! -path 'kernel/arch/*' \
			! -name veth.ko ! -name dummy.ko ! -name tun.ko -delete )
	mkdir -p "$1/usr/lib/modules"
	mv "$1/kernel/lib/modules/$version" "$1/usr/lib/modules"
	rm -r "$1/kernel"
	chroot "$1" depmod "$version"
}

make_root() {
	local root
	root=$vm/root-$(echo "$packages" | cksum | cut -d' ' -f1)
	if [ ! -e "$root" ]; then
		mkdir -p "$vm"
		rm -rf "$vm/root.new"
		debootstrap --variant=minbase --include="$packages" bookworm "$vm/root.new" \
			>"$vm/debootstrap.log" 2>&1 ||
			{ tail -n 5 "$vm/debootstrap.log" >&2; die "debootstrap failed"; }
		add_kernel "$vm/root.new"
		mv "$vm/root.new" "$root"
	fi
	echo "$root"
}

pack() { # FOLDER [FIND-ARGUMENT...]
	( cd "$1" && shift && find . -xdev "$@" | cpio -o -H newc --quiet )
}

# Pack the part of the initramfs that is the same in each run.
pack_base() { # ROOT
	local to=$vm/${1##*/}.cpio
	[ ! -e "$to" ] || return 0
	pack "$1" \( -path ./usr/share/doc -o -path ./usr/share/man -o -path ./usr/share/locale \
		-o -path ./usr/share/info -o -path ./usr/share/zoneinfo -o -path ./var/cache/apt \
		-o -path ./var/lib/apt/lists -o -path './dev/*' -o -path './proc/*' \
		-o -path ./boot -o -path ./etc/machine-id \) -prune -o -print >"$to.new"
	mv "$to.new" "$to"
}

while [ $# -gt 0 ]; do case $1 in
	--root) make_root; exit ;;
	-t) limit=$2; shift 2 ;;
	-f) files+=("$2"); shift 2 ;;
	-o) console=$2; shift 2 ;;
	*) break ;;
esac; done
script=${1:?SCRIPT is missing}
for p in qemu-system-x86_64 debootstrap cpio; do
	command -v $p >/dev/null || die "$p is missing"
done

root=$(make_root)
pack_base "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- the part of the initramfs that belongs to this run ---
top=$work/top
mkdir -p "$top/etc/systemd/system/basic.target.wants" "$top/usr/lib/modules-load.d"
ln -s usr/lib/systemd/systemd "$top/init"
echo 0123456789abcdef0123456789abcdef >"$top/etc/machine-id"
echo guest >"$top/etc/hostname"
# Timers cost time, and getty would share the console.
for unit in serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer \
	dpkg-db-backup.timer e2scrub_all.timer systemd-timesyncd.service; do
	ln -s /dev/null "$top/etc/systemd/system/$unit"
done
cat >"$top/etc/systemd/system/guest-script.service" <<-'EOT'
	[Unit]
	After=basic.target
	[Service]
	Type=oneshot
	Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TERM=dumb
	Environment=SYSTEMD_COLORS=0 DEBIAN_FRONTEND=noninteractive
	StandardOutput=tty
	StandardError=tty
	TTYPath=/dev/ttyS0
	ExecStart=/bin/bash /guest/run
	TimeoutStartSec=infinity
EOT
ln -s ../guest-script.service "$top/etc/systemd/system/basic.target.wants/guest-script.service"
mkdir "$top/guest"
cat >"$top/guest/run" <<-'EOT'
	systemd=$(systemctl --version | head -n 1)
	echo "guest: $(uname -r), $systemd, up $(cut -d' ' -f1 /proc/uptime) s"
	cd /guest
	bash /guest/script </dev/null
	echo "guest-exit: $?"
	systemctl poweroff -ff
EOT
cp "$script" "$top/guest/script"
for f in ${files[@]+"${files[@]}"}; do
	mkdir -p "$top$(dirname "${f#*:}")"
	cp -L "${f%%:*}" "$top${f#*:}"
done
cat "$vm/${root##*/}.cpio" >"$work/initrd"
pack "$top" >>"$work/initrd"

# --- the guest ---
append="console=ttyS0 quiet loglevel=3 systemd.show_status=false panic=-1 mitigations=off"
append+=" random.trust_cpu=on no_timer_check nokaslr tsc=reliable"
timeout -k 5 "$limit" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
	-machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 1536 -serial stdio \
	-kernel "$root/boot/vmlinuz" -initrd "$work/initrd" -append "$append" \
	</dev/null 2>&1 | tr -d '\r' | tee "$work/console"
[ -z "$console" ] || cp "$work/console" "$console"
code=$(sed -n 's/.*guest-exit: \([0-9]*\).*/\1/p' "$work/console" | tail -n 1)
[ -n "$code" ] || die "the guest ended after $SECONDS s without a result"
exit "$code"
