# Functions for the tests of packages and services. The working directory is the top of the tree.

# Print the path of the Debian package. It is built first if there is none newer than the tree.
fresh_package() {
	local p
	p=$(ls build/deb/tsnatd_*.deb 2>/dev/null)
	if [ -z "$p" ] ||
		[ -n "$(find Makefile daemon systemd conf contrib -newer "$p" -type f)" ]; then
		make deb >/dev/null || return 1
		p=$(ls build/deb/tsnatd_*.deb)
	fi
	echo "$p"
}

failed=0
check() { # TEXT COMMAND...
	local text=$1
	shift
	if "$@"; then
		echo "ok - $text"
	else
		echo "not ok - $text"
		failed=1
	fi
}
not() { ! "$@"; }
