#!/bin/bash
# The package and its units under a real systemd: guest.sh boots Debian 12 with its own kernel, and
# runs in-guest.sh there. This takes some four minutes.
set -u
cd "$(dirname "$0")/../.."
. tests/service/lib.sh

for p in qemu-system-x86_64 debootstrap cpio dpkg-buildpackage dh; do
	command -v $p >/dev/null || { echo "not ok - $p is missing (tests/deps.sh)"; exit 1; }
done
package=$(fresh_package) || { echo "not ok - make deb"; exit 1; }
exec tests/service/guest.sh -t 750 -f "$package:/guest/tsnatd.deb" tests/service/in-guest.sh
