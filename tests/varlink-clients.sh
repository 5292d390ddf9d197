#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# varlink-clients.sh - gets two varlink clients by other authors for the tests: varlinkctl (systemd 257) and python-varlink. Debian 12 has
# neither.
#
# The packages come from a newer release in the archive that apt is configured for. They are unpacked below build/clients, with all
# libraries that varlinkctl needs, and stay until "make clean". Nothing is installed, and apt's own configuration is not touched.
#
# Prints lines to be evaluated by a shell: VARLINKCTL=(...) and PYTHON_VARLINK=DIR. On failure it prints the reason and exits with 1.
set -eu
cd "$(dirname "$0")/.."
dir=$PWD/build/clients
suite=trixie
die() {
	echo "$*" >&2
	exit 1
}

archive() { # prints the URI of the archive that this machine's release comes from
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk -v release="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" '$1 == release && $2 == "main" { print $3; exit }'
}

newer_apt() { # TOOL ARGUMENTS...
	"$1" -qq -o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$dir/apt/state" -o Dir::State::status=/dev/null -o Dir::Cache="$dir/apt/cache" \
		-o APT::Sandbox::User=root -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "${@:2}"
}

# Prints the names of the package and of all its dependencies.
closure() { # PACKAGE
	newer_apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$1" |
		grep '^[a-z0-9]' | sort -u
}

fetch() {
	local uri packages

	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "no apt"
	uri=$(archive)
	[ -n "$uri" ] || die "apt is not configured for an archive of Debian"
	rm -rf "$dir"
	mkdir -p "$dir/apt/state/lists/partial" "$dir/apt/cache/archives/partial" "$dir/debs" "$dir/new"
	echo "deb $uri $suite main" >"$dir/apt/sources.list"
	newer_apt apt-get update >"$dir/log" 2>&1 && packages=$(closure libsystemd-shared) && [ -n "$packages" ] ||
		die "cannot download the package lists of $suite: $(tail -n 1 "$dir/log")"
	(cd "$dir/debs" && newer_apt apt-get download systemd python3-varlink $packages) >"$dir/log" 2>&1 ||
		die "cannot download packages of $suite: $(tail -n 1 "$dir/log")"
	for deb in "$dir"/debs/*.deb; do
		dpkg-deb -x "$deb" "$dir/new"
	done
	rm -rf "$dir/apt" "$dir/debs"
	mv "$dir/new" "$dir/root" # so that build/clients/root is never half unpacked
}

if [ -e "$dir/root" ] || ! command -v varlinkctl >/dev/null || ! python3 -c 'import varlink' 2>/dev/null; then
	[ -e "$dir/root" ] || fetch
	lib=$(dirname "$(ls "$dir"/root/usr/lib/*/libc.so.6)")
	echo "VARLINKCTL=('$(ls "$lib"/ld-linux*.so.*)' --library-path '$lib:$lib/systemd' '$dir/root/usr/bin/varlinkctl')"
	echo "PYTHON_VARLINK='$dir/root/usr/lib/python3/dist-packages'"
else
	echo "VARLINKCTL=('$(command -v varlinkctl)')"
	echo "PYTHON_VARLINK="
fi
