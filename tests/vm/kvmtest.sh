#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kvmtest.sh - boot a kernel under qemu with an initramfs made on the spot, and run one shell script in it as root.
#
#	kvmtest.sh -k DIR -o DIR [-m MODULES] [-b PROGRAMS] [-f FILES] [-t SECONDS] SCRIPT
#
#	-k DIR		an unpacked kernel package: a vmlinuz and lib/modules below it
#	-o DIR		for the guest's files and the log of its console
#	-m MODULES	to install, with their dependencies. The guest's kernel loads them on demand
#	-b PROGRAMS	for the guest's /bin, with their shared libraries; all others come from busybox
#	-f FILES	for the guest's root directory
#	-t SECONDS	after which the guest is killed
#
# The script's output goes to standard output, the kernel's messages to the log. Exits with the script's status, or 99 when the
# guest ended before the script did. Needs no root, network, disk image or loop device. The processor is emulated, which works
# everywhere; with TSNATD_VM_ACCEL=kvm it is virtualized.
set -euo pipefail

die() { printf 'not ok - %s\n' "$*"; exit 99; }

kernel='' out='' modules='' programs='' files='' limit=300
while getopts k:o:m:b:f:t: option; do
	case $option in
	k) kernel=$OPTARG ;;
	o) out=$OPTARG ;;
	m) modules=$OPTARG ;;
	b) programs=$OPTARG ;;
	f) files=$OPTARG ;;
	t) limit=$OPTARG ;;
	*) exit 2 ;;
	esac
done
script=${!OPTIND}
root=$out/root
console=$out/console.log
PATH=$PATH:/usr/sbin:/sbin

for tool in qemu-system-x86_64 busybox cpio gzip ldd; do
	command -v $tool >/dev/null || die "there is no $tool"
done
busybox=$(command -v busybox)
if ldd "$busybox" >/dev/null 2>&1; then die "$busybox is not linked statically (package busybox-static)"; fi

# ---- the guest's files -----------------------------------------------------------------------------------

add_program() { # NAME or PATH; replaces the applet of its name
	local path lib

	path=$(command -v "$1") || die "there is no program $1"
	rm -f "$root/bin/${path##*/}"
	cp -L "$path" "$root/bin/"
	for lib in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*'); do
		[ -e "$root$lib" ] || install -D -m 755 "$lib" "$root$lib"
	done
}

unpacked() { # FILE: prints a module without compression, for the loader of busybox
	case $1 in
	*.xz) xz -dc "$1" ;;
	*.zst) zstd -qdc "$1" ;;
	*) cat "$1" ;;
	esac
}

declare -A known=()
add_module() { # NAME; a missing module may be built into the kernel; else a test fails
	local name=${1//-/_} file to

	[ -z "${known[$name]:-}" ] || return 0
	known[$name]=1
	file=$(find "$module_dir/kernel" -name "$name.ko*" -o -name "${name//_/-}.ko*" | head -n 1)
	[ -n "$file" ] || return 0
	to=$root/lib/modules/$release/${name}.ko
	unpacked "$file" >"$to"
	for name in $("$busybox" strings "$to" | sed -n 's/^depends=//p' | tr , ' '); do
		add_module "$name"
	done
}

make_root() {
	local applet

	rm -rf "$root"
	mkdir -p "$root"/{bin,dev,etc,proc,sys,run,tmp,usr,var/lib,lib64} "$root/lib/modules/$release"
	ln -s bin "$root/sbin"
	ln -s ../bin "$root/usr/bin"
	ln -s ../bin "$root/usr/sbin"
	ln -s ../lib "$root/usr/lib"
	ln -s ../run "$root/var/run"
	cp "$busybox" "$root/bin/busybox"
	for applet in $("$busybox" --list); do
		[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
	done
	# Not busybox's shell, which would prefer its applets to programs of the same name.
	applet=$(readlink -f /bin/sh)
	add_program "$applet"
	[ "${applet##*/}" = sh ] || ln -sf "${applet##*/}" "$root/bin/sh"
	for applet in $programs; do
		add_program "$applet"
	done
	for applet in $modules; do
		add_module "$applet"
	done
	cp "$module_dir"/modules.{builtin,order} "$root/lib/modules/$release/"
	"$busybox" depmod -b "$root" "$release"
	for applet in $files; do
		cp "$applet" "$root/"
	done
	cp "$script" "$root/script"
	cat >"$root/init" <<-'END'
		#!/bin/sh
		export PATH=/bin HOME=/
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t devtmpfs dev /dev 2>/dev/null
		mount -t tmpfs -o mode=0755 run /run
		mount -t bpf -o mode=0700 bpf /sys/fs/bpf # as systemd does
		ip link set lo up
		# The second serial line, where no kernel message gets between.
		stty raw </dev/ttyS1
		exec >/dev/ttyS1 2>&1 </dev/null
		echo "# $(uname -r), $(nproc) processors, up after $(cut -d' ' -f1 /proc/uptime) s"
		sh /script
		echo "# exit $? at $(cut -d' ' -f1 /proc/uptime) s"
		reboot -f
	END
	chmod +x "$root/init"
}

# ---- the guest -------------------------------------------------------------------------------------------

run_guest() {
	local accel=(-accel tcg,thread=multi -cpu max)

	[ "${TSNATD_VM_ACCEL:-tcg}" != kvm ] || accel=(-accel kvm -cpu host)
	timeout --foreground -k 5 "$limit" qemu-system-x86_64 "${accel[@]}" -machine q35 -smp 2 -m 512 \
		-nodefaults -no-user-config -display none -no-reboot \
		-serial "file:$console" -serial stdio -kernel "$vmlinuz" -initrd "$out/initrd" \
		-append "console=ttyS0 quiet panic=-1 reboot=t mitigations=off random.trust_cpu=on no_timer_check tsc=reliable" \
		</dev/null 2>"$out/qemu.log"
}

vmlinuz=$(find "$kernel" -name 'vmlinuz*' -type f | head -n 1)
module_dir=$(dirname "$(find "$kernel" -name modules.order | head -n 1)")
release=${module_dir##*/}
[ -n "$vmlinuz" ] && [ -d "$module_dir/kernel" ] || die "there is no vmlinuz or no lib/modules below $kernel"

mkdir -p "$out"
: >"$console"
make_root
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$out/initrd"
run_guest | tee "$out/output" || true
status=$(sed -n 's/^# exit \([0-9]*\) at.*/\1/p' "$out/output")
if [ -z "$status" ]; then
	echo "not ok - the guest with kernel $release ended before ${script##*/} did (it has $limit s)"
fi
if [ "${status:-99}" != 0 ]; then
	echo "# the console's last lines:"
	tail -n 40 "$console" "$out/qemu.log" | tr -d '\r' | sed 's/^/#   /'
fi
exit "${status:-99}"
