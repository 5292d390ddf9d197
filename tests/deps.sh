#!/bin/bash
# Install the missing packages that building and testing need. Where apt is not the package manager,
# list them.
set -eu

fuzzer=$(ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a 2>/dev/null | head -1)

# command or file that shows that the package is there -> Debian's package
needs="
gcc:gcc
make:make
clang:clang
clang-format:clang-format
pkg-config:pkg-config
/usr/sbin/bpftool:bpftool
/usr/include/bpf/libbpf.h:libbpf-dev
/usr/include/linux/bpf.h:linux-libc-dev
/usr/include/libmnl/libmnl.h:libmnl-dev
/usr/include/libnftnl/rule.h:libnftnl-dev
/usr/include/libnetfilter_queue/libnetfilter_queue.h:libnetfilter-queue-dev
/usr/include/libnetfilter_conntrack/libnetfilter_conntrack.h:libnetfilter-conntrack-dev
/usr/include/systemd/sd-event.h:libsystemd-dev
/usr/include/libconfig.h:libconfig-dev
/usr/include/json-c/json.h:libjson-c-dev
/usr/include/zlib.h:zlib1g-dev
/usr/include/libnfnetlink/libnfnetlink.h:libnfnetlink-dev
/usr/include/cmocka.h:libcmocka-dev
ip:iproute2
nft:nftables
iptables:iptables
nginx:nginx-light
wrk:wrk
iperf3:iperf3
curl:curl
tcpdump:tcpdump
ethtool:ethtool
conntrack:conntrack
python3:python3
/usr/lib/python3/dist-packages/scapy/__init__.py:python3-scapy
${fuzzer:-/missing-libclang-rt}:libclang-rt-14-dev
valgrind:valgrind
qemu-system-x86_64:qemu-system-x86
/usr/bin/busybox:busybox-static
xz:xz-utils
cpio:cpio
debootstrap:debootstrap
dpkg-buildpackage:dpkg-dev
dh:debhelper
man:man-db
mandoc:mandoc
lintian:lintian
systemd-analyze:systemd
/usr/lib/python3/dist-packages/yaml/__init__.py:python3-yaml
"

missing=""
for n in $needs; do
	what=${n%%:*} package=${n#*:}
	case $what in
	/*) [ -e "$what" ] || missing="$missing $package" ;;
	*)
		PATH=$PATH:/usr/sbin:/sbin command -v "$what" >/dev/null ||
			missing="$missing $package"
		;;
	esac
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "These are missing; install them by their names in your distribution (as root):" >&2
	printf '  %s\n' $missing >&2
	exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# a service that a package would start (nginx) is not wanted: tests start their own
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
	trap 'rm -f $policy' EXIT
fi
apt-get install -y -qq --no-install-recommends $missing >/dev/null
