#!/bin/sh
# Build the Debian package of this tree.
#
#	contrib/debian/build.sh VERSION DIRECTORY
#
# The packages are put in DIRECTORY. They are built in a copy of the tree there, because Debian's
# compiler flags differ from those of this tree.
set -eu
version=$1 out=$2
src=$out/tsnatd-$version

rm -rf "$out"
mkdir -p "$src"
cp -R LICENSE Makefile conf contrib daemon systemd tests "$src"
cp -R contrib/debian "$src/debian"
# the version comes from the Makefile
sed -i "1s/(.*)/($version-1)/" "$src/debian/changelog"
cd "$src"
export DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}"
dpkg-buildpackage -b -us -uc >../build.log 2>&1 || {
	tail -n 30 ../build.log >&2
	exit 1
}
cd ..
rm -rf "tsnatd-$version"
ls -- *.deb
